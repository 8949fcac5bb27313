"""Users that may log on to RPC with NTLM, in the user store of a node."""

from tests.node.rig import Rig
from waypost.api.local import ImportUsers
from waypost.daemon.rpc_users import Logons
from waypost.drive.passwords import nt_hash
from waypost.node.kernel import Call
from waypost.node.operation_handlers import Handlers


def logons_of(**passwords: str) -> Logons:
    """Users with these passwords. A name may be PLANT__alice, for PLANT\\alice."""
    rig = Rig()
    found = Logons(rig.node.users)
    if passwords:
        users = tuple((name.replace("__", "\\"), "", nt_hash(password)) for name, password in passwords.items())
        Handlers(rig.node).start(Call(1, rig.now, rig.node.administrator), ImportUsers(digest="1", users=users))
    return found
