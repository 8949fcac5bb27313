"""`waypost store ...`: the group. Its commands are in waypost.cli.store_backup."""

import typer

from waypost.cli import store_backup

app = typer.Typer(help="Back up and restore the store.", add_completion=False, rich_markup_mode=None)
app.command()(store_backup.backup)
app.command()(store_backup.restore)
