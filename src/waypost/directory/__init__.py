"""The directory of MS-MQDMPR: its objects, the events that read and change them, and the embedded directory."""
