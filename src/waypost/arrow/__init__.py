"""Messages as columns: packets to Arrow by the thousand, bodies to text. It needs numpy and pyarrow, and no Spark."""
