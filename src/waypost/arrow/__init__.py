"""Messages as columns: packets to Arrow by the thousand, bodies to text. Needs numpy and pyarrow, but not Spark."""
