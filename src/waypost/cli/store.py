"""`waypost store ...`: the group. Its commands are in waypost.cli.store_verify and waypost.cli.store_damaged."""

import typer

from waypost.cli import store_damaged, store_verify

app = typer.Typer(help="Verify and salvage the store.", add_completion=False, rich_markup_mode=None)
app.command()(store_verify.verify)
app.command()(store_verify.salvage)
app.command()(store_damaged.damaged)
