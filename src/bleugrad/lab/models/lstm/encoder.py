"""The encoder: bidirectional LSTM layers over the source."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class LSTMEncoder(nn.Module):
    """Bidirectional LSTM layers, with ``hidden`` units per direction and dropout between layers.

    The outputs of a sentence do not depend on its padding or on the other sentences.
    """

    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (B, S, width) with B >= 1 and lengths (B,) >= 1 on the CPU.

        Returns (B, S, 2H), the outputs of the top layer, 0 at padding, and (B, 2H), its last cells.
        """
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        device = embedded.device.type
        lower = torch.is_autocast_enabled(device) and (device != "cpu" or bfloat16_lstm_works())
        with torch.autocast(device, enabled=lower):
            outputs, (_, cells) = self.lstm(packed)
        padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
        return padded, torch.cat([cells[-2], cells[-1]], -1)


@cache
def bfloat16_lstm_works() -> bool:
    """Whether LSTM layers can train in bfloat16 on this CPU. If not, the encoder uses float32 under autocast."""
    with torch.random.fork_rng(devices=[]):
        lstm = nn.LSTM(1, 1, bidirectional=True)
    packed = pack_padded_sequence(torch.zeros(1, 1, 1), torch.ones(1, dtype=torch.long))
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.enable_grad():
            lstm(packed)[0].data.sum().backward()
    except RuntimeError:
        return False
    return True
