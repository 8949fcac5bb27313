"""`waypost store ...`: the group. Its commands are in waypost.cli.store_verify."""

import typer

from waypost.cli import store_verify

app = typer.Typer(help="Verify and salvage the store.", add_completion=False, rich_markup_mode=None)
app.command()(store_verify.verify)
app.command()(store_verify.salvage)
