"""Every attack, one module a kind."""

from lego_rl.selfcheck.attack import Attack
from lego_rl.selfcheck.attacks.chosen_faults import CHOSEN_FAULTS
from lego_rl.selfcheck.attacks.escapes import ESCAPES
from lego_rl.selfcheck.attacks.exhaustion import EXHAUSTION
from lego_rl.selfcheck.attacks.history import HISTORY
from lego_rl.selfcheck.attacks.left_behind import LEFT_BEHIND
from lego_rl.selfcheck.attacks.network import NETWORK
from lego_rl.selfcheck.attacks.planted import PLANTED

ATTACKS: tuple[Attack, ...] = (
    *HISTORY, *NETWORK, *PLANTED, *LEFT_BEHIND, *EXHAUSTION, *ESCAPES, *CHOSEN_FAULTS,
)  # fmt: skip
