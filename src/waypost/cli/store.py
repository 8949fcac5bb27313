"""`waypost store ...`: the group. Its commands are in the modules waypost.cli.store_*."""

import typer

from waypost.cli import store_backup, store_damaged, store_verify

app = typer.Typer(help="Verify, back up, restore and salvage the store.", add_completion=False, rich_markup_mode=None)
app.command()(store_verify.verify)
app.command()(store_backup.backup)
app.command()(store_backup.restore)
app.command()(store_verify.salvage)
app.command("forget-users")(store_verify.forget_users)
app.command()(store_damaged.damaged)
