"""Every bound of Waypost in one place.

A number that stops hostile or careless input is defined here and nowhere else.
"""

from typing import Final

# MS-MQMQ 2.2.19.1: the largest BaseHeader.PacketSize.
MAX_PACKET_SIZE: Final = 0x0040_0000

# MS-MQMQ 2.1.1: path name parts, in characters.
MAX_COMPUTER_NAME: Final = 256
MAX_QUEUE_NAME: Final = 124
MAX_SUBQUEUE_NAME: Final = 32

# MS-MQMQ 2.1.5: the domain name after @ in a distribution list name, in characters.
MAX_DOMAIN_NAME: Final = 255

# MS-MQMQ 2.2.19.3: UTF-16 units of a label with its terminating null.
MAX_LABEL_LENGTH: Final = 0xFA

# MS-MQMQ 2.2.20.6: bytes of a sender certificate.
MAX_SENDER_CERT_SIZE: Final = 0xFFFF

# A whole format name as text. The longest single name has a computer, a queue and a subqueue part; a multiple-element
# name joins many.
MAX_FORMAT_NAME_TEXT: Final = 0x1_0000

# CAPROPVARIANT nests PROPVARIANTs (MS-MQMQ 2.2.16); the deepest defined property, CONNECTION_HISTORY, nests three
# levels.
MAX_PROPVARIANT_DEPTH: Final = 8

# MS-DTYP 2.4.2: numbers below the authority of a SID.
MAX_SUB_AUTHORITIES: Final = 15

# Bytes of an RSA modulus: 16384 bits, the longest key that CryptoAPI makes. MS-MQQB 2.4 has no bound.
MAX_RSA_MODULUS: Final = 2048
# Bits of RSA keys that sign and encrypt here. Shorter keys are broken in hours or months; longer ones stop a worker for
# seconds.
MIN_RSA_BITS: Final = 1024
MAX_RSA_BITS: Final = 16_384

# A captured frame or capture file block; the tools that write captures stop at 256 KiB, or 128 MiB for USB, which is
# not ours to read.
MAX_CAPTURE_BLOCK: Final = 0x0100_0000

# One direction of a captured TCP connection: what may wait for a segment that is late before the segment counts as
# missing.
MAX_WAITING_SEGMENTS: Final = 1024
MAX_WAITING_BYTES: Final = 0x0010_0000

# All captured TCP connections together: the one that was silent longest is given up first.
MAX_CAPTURE_FLOWS: Final = 4096
MAX_CAPTURE_HELD: Final = 0x0400_0000

# RFC 7323 2.3: the largest TCP window. A sequence number farther away than this belongs to another connection.
MAX_TCP_WINDOW: Final = 0x4000_0000

# Hexadecimal text: characters of a line (a whole packet may stand on one), and bytes that the lines make together.
MAX_HEX_LINE: Final = 0x0100_0000
MAX_HEX_BYTES: Final = 0x0400_0000

# MS-MQMQ 2.3.1.8: UTF-16 units of a queue's label.
MAX_QUEUE_LABEL: Final = 124

# MS-MQMQ 2.4, MQ_ERROR_TOO_MANY_PROPERTIES: properties in one call.
MAX_PROPERTIES: Final = 128

# A packet that a remote read returns, with its extension headers: MS-MQQP 2.2.2.1 dwSize, taken for MS-MQRR too.
MAX_REMOTE_PACKET_SIZE: Final = 0x0042_0000

# MS-MQMQ 2.2.20.2: names in one address list, more than a format name of MAX_FORMAT_NAME_TEXT characters can have.
MAX_MQF_ELEMENTS: Final = 0x2000

# Response queues, and administration queues, that one message names. A program that gives more is told so, and nothing
# is sent. Of a message from another computer all are shown, and the first administration queues get acknowledgments:
# the others get none, so that a small message of a stranger does not make this computer connect to thousands. The log,
# a metric and `doctor` name the peer that has brought it.
MAX_ANSWER_QUEUES: Final = 16

# Bytes of the values that one scan of the store returns, so that a page of the largest messages stays small in memory.
MAX_SCAN_BYTES: Final = 0x0010_0000

# Bytes of the values that one transaction of the store writes, unless a single batch has more: what is not yet flushed
# is held twice in memory.
MAX_COMMIT_BYTES: Final = 0x0200_0000

# Bytes of the store's file, unless the one who opens it says otherwise. It reserves addresses, neither disk nor memory.
MAX_STORE_SIZE: Final = 1 << 40

# The part of the disk that is kept for receiving messages, unless the one who opens the store says how much: a quarter
# of what the store holds, at most an eighth of the disk, and between these bounds. When no more than it is left, all
# who would store something new are refused in words: a program by an error, a peer by the end of its session, so that
# its messages stay with it. Receives, removals and acknowledgments go on; log, `doctor`, metrics and the ready probe
# say so.
MIN_RESERVE: Final = 0x10_0000
MAX_RESERVE: Final = 0x0400_0000

# MS-MQDMPR 3.1.1.3 ConnectionHistory: the last attempts to connect that an outgoing queue remembers.
MAX_CONNECTION_HISTORY: Final = 10

# Messages that a purge deletes before others have their turn: some ten milliseconds. Nobody loses anything by it: the
# request is answered when the last part is done.
PURGE_PART: Final = 500

# Messages of an outgoing queue that get new numbers before others have their turn, when its sequence is reset. Nobody
# loses anything by it: nothing leaves the queue before the last part is done, and a start goes on with the next part.
RENUMBERED_PART: Final = 500

# Seconds that the TimeStamp of an outgoing sequence may be ahead of the clock before `doctor` names it, and before a
# reset goes back to the clock instead of on from there.
MAX_TIME_STAMP_AHEAD_SECONDS: Final = 3600

# Messages of a queue that are moved before others have their turn, and parts of a move that one request does: its
# client goes on with the next one. Nobody loses anything: a message is in one of the two queues, whenever it ends.
MOVE_PART: Final = 500
MAX_MOVED_PARTS: Final = 10

# Messages that were there at a start and are tagged behind it, so that one is found by its identifier: so many before
# others have their turn, with a pause of so many seconds, unless somebody waits for the rest. Nobody loses anything.
# Then several parts are one turn: some ten milliseconds.
INDEX_PART: Final = 128
INDEX_PAUSE_SECONDS: Final = 0.001
INDEX_PARTS_AWAITED: Final = 16

# Seconds for which an explanation waits until all messages can be searched after a start, less than clients wait for an
# answer. Then the answer says how many cannot yet.
EXPLAIN_WAIT_SECONDS: Final = 25.0

# Places of a message that one explanation shows: anybody can send any number with one identifier. The answer says how
# many more there are.
MAX_EXPLAINED_PLACES: Final = 100

# HTTP: bytes of a request, and of what comes before its body; messages in one answer, and about how many bytes of them;
# seconds that a request may wait.
MAX_HTTP_HEAD: Final = 0x1_0000
MAX_HTTP_BODY: Final = 0x0400_0000
MAX_HTTP_BATCH: Final = 1000
MAX_HTTP_ANSWER: Final = 0x0400_0000
MAX_HTTP_WAIT_SECONDS: Final = 60

# HTTP: what clients may leave open (transactions, handles, cursors, event streams), how long at most, and how many
# ended transactions are remembered, so that a commit whose answer was lost can be asked for again.
MAX_HTTP_TRANSACTIONS: Final = 1000
MAX_HTTP_HANDLES: Final = 1000
MAX_HTTP_STREAMS: Final = 100
# Sessions of browsers, and links that wait for one.
MAX_HTTP_SESSIONS: Final = 64
MAX_HTTP_LEASE_SECONDS: Final = 3600
MAX_HTTP_OUTCOMES: Final = 10_000
# Checks of passwords that wait, and wrong passwords of a user or an address in five minutes.
MAX_LOGIN_CHECKS: Final = 16
MAX_FAILED_LOGINS: Final = 10

# Queues that /metrics shows one by one. The others are counted in waypost_queues_omitted, which says so.
MAX_METRICS_QUEUES: Final = 1000

# Queues of a list, of /metrics or of a check of `doctor` that are looked at before others have their turn: some
# milliseconds. Nobody loses anything: the list goes on with the next turn.
LIST_PART: Final = 50

# Peers whose refused connections are remembered, so that a flood of addresses takes no memory.
MAX_WATCHED_PEERS: Final = 4096

# Peers that have a history, for which connections are reserved: the one met longest ago is a stranger again, and loses
# nothing but the reserve.
MAX_PEERS_WITH_HISTORY: Final = 4096

# Memory that counts against the quota of the machine, beside the bytes of messages: of a position, of a message that is
# in memory only (beyond its packet), and of a run of messages from one peer; so many bytes of it are free. When the
# quota is used up, new messages are refused as for their own bytes: the sender keeps them, or the program is told.
POSITION_BYTES: Final = 22
MESSAGE_OVERHEAD_BYTES: Final = 900
SOURCE_RUN_BYTES: Final = 160
FREE_OVERHEAD_BYTES: Final = 0x10_0000

# Peers that are remembered for an operator because they were refused for their share of the quota, or because
# their acknowledgments found no place.
MAX_REFUSED_ADDRESSES: Final = 64

# Characters of a value in a line of the log.
MAX_LOGGED_TEXT: Final = 500

# Destinations, addresses and queues of one kind of event whose state the log has told and remembers. Of more, the first
# is forgotten: the same line is written once more for it.
MAX_LOG_SUBJECTS: Final = 4096

# Bytes that wait for the disk, until nothing more is taken from other hosts: what a program on this computer sends is
# durable after so much. Hosts that send wait, and lose nothing; their own messages stay with them.
MAX_UNWRITTEN_BYTES: Final = 0x0040_0000

# The turn of one connection while others wait: packets that are looked at (a window of MS-MQQB), and bytes that are
# taken for that. One that waits alone may have more packets looked at. A connection with more to do waits for its next
# turn: nobody loses anything, and nobody has to be told.
MAX_TURN_PACKETS: Final = 64
MAX_TURN_BYTES: Final = 0x4_0000
MAX_WHOLE_TURN_PACKETS: Final = 1024

# Bytes that were read from connections and wait for their turn: of all together, until less is read at a time, and then
# of one. The rest waits in the sockets of those who send.
MAX_KEPT_BYTES: Final = 0x0100_0000
MAX_KEPT_PIECE: Final = 0x4000

# Connections to others that are being made at the same time: messages may name any number of hosts that do not answer.
# Connections that others cause have a share each, for OrderAcks and FinalAcks and for the queues that they
# name, so that our own never wait for such hosts. Nobody loses anything: a connection waits for its turn.
MAX_CONNECTING: Final = 128
MAX_CONNECTING_OWED: Final = 48
MAX_CONNECTING_NAMED: Final = 48

# Ping packets per second that are looked at, with a reserve of as many.
MAX_PINGS_PER_SECOND: Final = 1000

# Messages whose time is over that are taken away before others have their turn: some twenty milliseconds. Nobody gets
# one of the others meanwhile, and nobody loses anything: their acknowledgments and dead-letter messages come later.
EXPIRY_PART: Final = 500

# Batches of purges and expiries that are not durable yet when the next part is done: a send becomes durable behind
# those that were made before it. Nobody loses anything: the next part follows when the store has caught up.
PARTS_AHEAD: Final = 1

# A turn of the daemon's loop that takes longer is counted, with what it did; and so many seconds back the longest turn
# of each is remembered. Nobody loses anything: `doctor`, `status` and a metric tell of them.
LONG_TURN_SECONDS: Final = 0.1
MAX_WATCHED_SECONDS: Final = 600

# Bytes that a session writes before it checks whether the other side reads; its window may have room for 256 MB.
MAX_WRITTEN_AT_ONCE: Final = 4 * 1024 * 1024

# The addresses of other computers with the identifier of this queue manager that are remembered for an operator.
MAX_IDENTIFIER_CONFLICTS: Final = 16

# MS-MQQB 3.1.1.3 MessageIDHistoryTable: the identifiers of received messages that are remembered in all, some 60 MB,
# and the addresses (/64 networks of IPv6) that they came from. Every address has an equal part, down to 64, which is
# the window of a session: with more addresses each loses its own oldest identifiers. Messages of one address more are
# not accepted: its session is closed with the reason, a notice says so, and its sender tries again.
MAX_REMEMBERED_PEERS: Final = 4096
MAX_REMEMBERED: Final = MAX_REMEMBERED_PEERS * 64

# Queue managers whose signed or encrypted messages were refused, counted one by one for an operator. Nobody loses a
# message by it: those of more sources are counted together, and `doctor` says how many there are.
MAX_REFUSED_SOURCES: Final = 1000

# Messages that were not taken on arrival and are remembered one by one for `explain`: in all (some 6 MB with long
# names), and of one address (/64 network of IPv6). Beyond them the oldest is forgotten, of the address first: a person
# who asks for it reads that it is not known. Log and metrics have had it.
MAX_REFUSALS: Final = 10_000
MAX_REFUSALS_OF_PEER: Final = 1000

# Messages that were handed to other hosts and are remembered for `explain`, the last ones: eight bytes each, and some
# 300 for those of one second and destination. Their acknowledgments, in all and from one address. Nobody loses
# anything: a person who asks for an older one reads that it is no longer known.
MAX_HANDED_OVER: Final = 500_000
MAX_HANDED_OVER_ENTRIES: Final = 20_000
MAX_OUTCOMES: Final = 20_000
MAX_OUTCOMES_OF_PEER: Final = 5000

# State that others cause a queue manager to keep: outgoing queues, and unfinished packets of all sessions, with the
# messages whose signatures and keys are being checked. Of more bytes, the address (/64 network of IPv6) with the most
# of them loses its largest session; the log has the reason.
MAX_OUTGOING_QUEUES: Final = 20_000
MAX_UNFINISHED_BYTES: Final = 256 * 1024 * 1024

# Messages of one address (one /64 network of IPv6) that are refused in a minute because their signature or encryption
# is wrong. The answer to a refused message says how far its check came, and thousands of such answers reveal a body
# that was recorded. Of more messages none is answered: the session closes, and they come again. The log and a metric
# say so.
MAX_UNVERIFIED_PER_MINUTE: Final = 60

# OrderAcks and FinalAcks that wait for one queue manager, and queue managers at one address (one /64 network of IPv6)
# for which some wait and that have no session: beyond them, no transactional message is taken from there that would
# lead to another FinalAck. Its source loses nothing, because it sends the message again; it sees that no OrderAck
# comes, and the log, `doctor` and a metric here name it. Acknowledgments that wait already are kept.
MAX_WAITING_ACKS: Final = 10_000
MAX_ACK_QUEUES_AT_ADDRESS: Final = 256

# Seconds after which an acknowledgment that still waits is told to the operator: seven days.
OVERDUE_ACK_SECONDS: Final = 7 * 86_400

# Outgoing queues in which administration acknowledgments wait that messages of others asked for: of one peer, of all
# together, and of a peer that gets its own whatever the others have. A sender may name any queue for them. The
# peer that names more loses their acknowledgments; the log, `doctor` and a metric here report them.
MAX_QUEUES_FOR_ACKS_OF_PEER: Final = 256
MAX_QUEUES_FOR_ACKS: Final = 10_000
FEW_QUEUES_FOR_ACKS: Final = 16

# Hosts that were met by dialling them, with transfer.ack_hosts = known. The one met first is forgotten, and loses
# acknowledgments until something is sent to it again; they are refused in words, as those of every unknown host.
MAX_MET_HOSTS: Final = 10_000

# Destinations whose messages came back that are remembered for an operator, and messages of this computer that came to
# a bad end here and are remembered, so that a copy that comes back later makes no second dead-letter message. Of more,
# the first are forgotten: such a copy makes one then.
MAX_LOOPS: Final = 64
MAX_ENDED: Final = 10_000

# Addresses at which a next hop was dialled that are remembered, the last ones. A message that comes back from an older
# one is refused and logged like any that claims to be from here.
MAX_DIALLED: Final = 8

# MS-MQRR 3.1.4.12: bytes of the propagation token of a remote transaction.
MAX_PROPAGATION_TOKEN: Final = 131_072

# MS-RPCE 2.2.1.2: bytes of a protocol tower, and the towers or entries that one call of the endpoint mapper asks for.
MAX_TOWER_SIZE: Final = 2000
MAX_TOWERS: Final = 500

# RPC: bytes of stub data of one request (MS-RPCE 3.3.3.5.4), and of all requests of all clients that are not whole yet.
# Of more, the address (/64 network of IPv6) with the most of them loses its largest request, and is told by a fault.
MAX_RPC_REQUEST: Final = 0x0040_0000
MAX_RPC_UNFINISHED_REQUESTS: Final = 64 * 1024 * 1024

# RPC, per connection: calls that are not answered yet, presentation contexts that are agreed on (MS-RPCE 3.3.3.5.5
# allows more) and security contexts (MS-RPCE 3.3.1.5.4); per caller, interface and association: context handles.
MAX_RPC_OPEN_CALLS: Final = 2048
MAX_RPC_CONTEXTS: Final = 256
MAX_RPC_SECURITY_CONTEXTS: Final = 64
MAX_RPC_HANDLES: Final = 4000

# RPC: calls that are not answered yet, some 1.4 KB each, of one address (one /64 network of IPv6), and of all together.
# A call of an address with more than the first is refused with a fault; beyond the second, one of an address that has
# MAX_RPC_OPEN_CALLS. A metric counts faults; calls that wait already go on.
MAX_RPC_OPEN_CALLS_OF_PEER: Final = 65_536
MAX_RPC_OPEN_CALLS_OF_ALL: Final = 262_144

# RPC: bytes of answers of all clients together that they do not take. Of more, the client with the most of them is cut
# off: what was locked for it is free again, its programs see a lost connection, and the log says so.
MAX_RPC_UNSENT_OF_ALL: Final = 0x0800_0000

# RPC, per connection, in bytes: answers that are made before the next request is looked at, answers that the client
# does not take, and requests that wait for that.
MAX_RPC_ANSWERED_AT_ONCE: Final = 0x0080_0000
MAX_RPC_UNSENT: Final = 0x0400_0000
MAX_RPC_UNREAD: Final = 0x0010_0000

# Cursors that a remote reader may have on one handle, some 16 MB; on all handles of its address; and of all addresses
# together, where one with few of them always gets one more.
MAX_REMOTE_CURSORS: Final = 100_000
MAX_REMOTE_CURSORS_OF_PEER: Final = 250_000
MAX_REMOTE_CURSORS_OF_ALL: Final = 1_000_000
FEW_REMOTE_CURSORS: Final = 100

# Subqueues of one queue: opening them to receive or to move makes them, and they are kept; those that are only looked
# into count as long as they are open. Opening one more is refused in words, and nobody loses a message.
MAX_SUBQUEUES: Final = 10_000

# Operations of one transaction, which are committed in one moment while everybody else waits: some hundred
# milliseconds. A program that asks for one more is told so, and its transaction goes on; a remote reader gets
# MQ_ERROR_TRANSACTION_SEQUENCE. Nobody loses a message.
MAX_TRANSACTION_OPERATIONS: Final = 100_000

# MS-MQRR 3.1.4.12: transactions of remote readers that have no outcome yet.
MAX_ENLISTED_TRANSACTIONS: Final = 10_000

# RPC, client: bytes of stub data of one answer, which has room for the largest packet of a remote read and what stands
# around it, and of all unfinished answers of a connection together.
MAX_RPC_ANSWER: Final = MAX_REMOTE_PACKET_SIZE + 0x1000
MAX_RPC_UNFINISHED_ANSWERS: Final = 16 * MAX_RPC_ANSWER

# waypost.msmq: calls that are under way on one connection before another is made, and reads of one host at a time.
MAX_READER_CALLS: Final = 128
MAX_READS_AT_ONCE: Final = 10_000

# Names of queues that programs have used and that are remembered, queues that stay open for sending, and characters of
# such a name: a long list of queues is opened for each send to it. Nobody loses anything: it is opened again.
MAX_OPENED_NAMES: Final = 4096
MAX_OPENED_NAME: Final = 1024

# The bulk interface: UTF-8 bytes of the name of a claim or a query, which is a part of a key of the store; claims, with
# and without messages (one more is refused); stages that wait for their commit; messages of one stage; messages of one
# part of a claim, while which are taken or given back nobody else has a turn; batches of a query that are known to be
# committed to a destination (older ones are refused); seconds of a lease.
MAX_BULK_NAME: Final = 255
MAX_BULK_MESSAGES: Final = 1_000_000
MAX_CLAIMED: Final = 100_000
MAX_CLAIMS: Final = 10_000
MAX_STAGES: Final = 100_000
MAX_BATCHES: Final = 128
MAX_BULK_LEASE_SECONDS: Final = 30 * 86_400

# Messages and bytes of one frame of a stage, which is one record of the store, and messages of a committed stage that
# enter their queues in one turn: some ten milliseconds. One that asks for acknowledgments or expires counts more.
MAX_STAGED_FRAME: Final = 2000
MAX_STAGED_FRAME_BYTES: Final = 2 << 20
MAX_DELIVERED: Final = 2000
LOUD_MESSAGE: Final = 8

# Seconds for which a commit under a name is remembered, from the last commit under it, and one without a name, which
# only a request with a lost answer repeats. With each commit, so many records are looked at, and old ones deleted.
NAMED_COMMIT_SECONDS: Final = 366 * 86_400
ANONYMOUS_COMMIT_SECONDS: Final = 86_400
COMMITS_SWEPT: Final = 8
# Writes of one batch to one destination that have names.
MAX_WRITES_OF_A_BATCH: Final = 1000

# MS-NRBF has no bounds: libraries that are passed over, and bytes of a name that is told.
MAX_NRBF_LIBRARIES: Final = 100
MAX_NRBF_NAME: Final = 1024

# The bulk interface: messages of one frame; messages that one request removes before others have their turn, some
# fifty milliseconds; ranges of one plan.
MAX_FRAME_MESSAGES: Final = 100_000
MAX_BULK_REMOVED: Final = 5000
MAX_PLAN_PARTS: Final = 1000
# The messages that a plan lists because they were moved in the second of the plan.
MAX_FRESH: Final = 1000
# The messages that a plan reads for their sizes, after a start: 30 ms.
MAX_SIZES_READ: Final = 10_000

# Acknowledgments of transactional messages that fit in all but the address they came from, and are kept until an
# operator admits it: of one message, of one address, and in total. Beyond a bound a FinalAck is not taken: the session
# that brings it is closed with the reason, so that its sender keeps it and brings it again, and the log says so. An
# OrderAck beyond it is dropped, because it comes again with the message. Believed addresses have no such bound.
MAX_KEPT_ACKS_OF_MESSAGE: Final = 4
MAX_KEPT_ACKS_OF_ADDRESS: Final = 1000
MAX_KEPT_ACKS: Final = 10_000

# Acknowledgments that are judged again before others have their turn, when something is known that was not: some ten
# milliseconds. Nobody loses anything: the rest follows.
MAX_JUDGED_AT_ONCE: Final = 100

# Addresses at which the queue managers of one destination were met by dialling it: beyond these the one that was
# learned first is forgotten, and what is acknowledged from there is kept until it is dialled again or admitted.
MAX_MET_ADDRESSES: Final = 16

# Addresses whose queue manager is remembered because it was dialled since the start, and host names whose addresses
# are: beyond these the oldest goes, and what is acknowledged from there is kept until it is dialled or resolved again.
MAX_ANSWERED_ADDRESSES: Final = 4096
MAX_RESOLVED_HOSTS: Final = 1024

# Addresses that operators have admitted for acknowledgments. One more is refused, and the operator is told.
MAX_ADMITTED_ADDRESSES: Final = 10_000

# Incoming transactional sequences that are in memory; all others are read from the store when they are wanted, so
# nobody loses anything.
MAX_CACHED_SEQUENCES: Final = 10_000

# Addresses that one source is known at for one queue. Beyond them, one that was silent for SILENT_SECONDS makes room;
# if there is none, a new address begins no sequence: its messages stay with their sender, and log, `explain` and
# `doctor` name it.
MAX_SEQUENCE_ADDRESSES: Final = 64
SILENT_SECONDS: Final = 7 * 86_400

# The last sequences of an address that have ended and are refused from everywhere. A copy of an older one, by an
# address that was met before and is not as far, would be taken again: while there is such an address, the log, a metric
# and `doctor` name it.
MAX_ENDED_SEQUENCES: Final = 16

# Sources, queues and addresses whose sequences were refused, and addresses that began new sequences at a high rate,
# which are remembered for `doctor` and `explain`: the oldest is forgotten, and the log and the counters have had it.
MAX_REFUSED_SEQUENCES: Final = 256

# Messages that were set aside because their records are damaged, of which the store keeps the bytes that were found.
# Nobody is refused for it: of further ones only these bytes are dropped, and the log says so; what they were (queue,
# number, time, reason) is kept of all.
MAX_DAMAGED_KEPT: Final = 1000

# The audit trail: entries, of which a block goes at once; characters of a text; refusals with entries in a minute.
MAX_AUDIT_ENTRIES: Final = 100_000
AUDIT_BLOCK: Final = 1000
MAX_AUDIT_TEXT: Final = 300
REFUSALS_PER_MINUTE: Final = 120

# Users: their number; groups, tokens and certificates of each; characters of a name, and of a password.
MAX_USERS: Final = 10_000
MAX_GROUPS_OF_USER: Final = 100
MAX_TOKENS_OF_USER: Final = 100
MAX_CERTIFICATES_OF_USER: Final = 100
MAX_USER_NAME: Final = 100
MAX_PASSWORD: Final = 1000

# Damaged messages that one request shows. Nobody loses anything: the next request goes on.
MAX_DAMAGED_PAGE: Final = 1000

# Incoming sequences that are shown, looked at for a check or reset before others have their turn: some ten
# milliseconds. Nobody loses anything: the next request goes on.
MAX_SEQUENCE_PAGE: Final = 1000
MAX_SEQUENCES_LOOKED_AT: Final = 10_000

# Seconds that nobody takes the next bytes of a backup: then it is ended. As long as a backup is being made, the room
# that messages leave in the store is not used again. The caller reads that the backup broke off, and begins another.
BACKUP_STALL_SECONDS: Final = 60.0
