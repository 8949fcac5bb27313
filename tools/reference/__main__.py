"""Write the reference pages."""

from tools.reference import write

write()
