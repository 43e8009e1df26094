"""The model by its definition: one sentence and one step at a time, computed from the parameters."""

import itertools
import sys

import torch

from tests.lab.models import naive_transformer

PAD, UNK, BOS, EOS = 0, 1, 2, 3


def rows_of(source):
    """The ids of each sentence of a padded batch."""
    return [ids[:length].tolist() for ids, length in zip(*source, strict=True)]


def lstm_cell(read, hidden, cell, weights, order):
    """Textbook LSTM; ``order`` says how the rows of the weights are laid out."""
    (w_read, b_read), (w_hidden, b_hidden) = weights
    parts = dict(zip(order, (w_read @ read + b_read + w_hidden @ hidden + b_hidden).chunk(4), strict=True))
    cell = torch.sigmoid(parts["forget"]) * cell + torch.sigmoid(parts["input"]) * torch.tanh(parts["new"])
    return torch.sigmoid(parts["output"]) * torch.tanh(cell), cell


def encoded(model, source):
    """Outputs (S, 2H) of the top layer and its final cells (2H,)."""
    saved = dict(model.encoder.lstm.named_parameters())
    vectors = [model.source_embedding.weight[token] for token in source]
    for layer in range(model.config.encoder_layers):
        directions, cells = [], []
        for suffix in ("", "_reverse"):
            names = [f"{kind}_{part}_l{layer}{suffix}" for part in ("ih", "hh") for kind in ("weight", "bias")]
            w_read, b_read, w_hidden, b_hidden = (saved[name] for name in names)
            hidden = cell = torch.zeros(model.config.hidden, dtype=w_read.dtype)
            outputs = []
            for vector in reversed(vectors) if suffix else vectors:
                weights = (w_read, b_read), (w_hidden, b_hidden)
                hidden, cell = lstm_cell(vector, hidden, cell, weights, ("input", "forget", "new", "output"))
                outputs.append(hidden)
            directions.append(outputs[::-1] if suffix else outputs)
            cells.append(cell)
        vectors = [torch.cat(pair) for pair in zip(*directions, strict=True)]
    return torch.stack(vectors), torch.cat(cells)


def hidden_states(model, source, inputs, token_noise=None, layer_noise=None):
    """Attentional vectors (T, H); noise multiplies embeddings (T, E) and what layers pass on (T, layers, H)."""
    decoder, size, layers = model.decoder, model.config.hidden, model.config.decoder_layers
    values, last_cells = encoded(model, source)
    start = decoder.bridge.weight @ last_cells + decoder.bridge.bias
    cells = list(start.chunk(layers))
    hidden = [torch.tanh(cell) for cell in cells]
    attentional = torch.zeros_like(cells[0])
    joined = torch.cat([decoder.attention_context.weight, decoder.attention_hidden.weight], 1)
    outputs = []
    for t, token in enumerate(inputs):
        embedded = model.target_embedding.weight[token]
        if token_noise is not None:
            embedded = embedded * token_noise[t]
        read = torch.cat([embedded, attentional])
        for layer in range(layers):
            if layer == 0:
                fed = decoder.feeding_gates.weight
                w_read = torch.cat([decoder.token_gates.weight, fed[:, :size]], 1)
                w_hidden, bias = fed[:, size:], decoder.token_gates.bias
            else:
                upper = decoder.upper_gates[layer - 1]
                w_read, w_hidden, bias = upper.weight[:, :size], upper.weight[:, size:], upper.bias
            weights = (w_read, bias), (w_hidden, 0)
            order = ("input", "forget", "output", "new")
            hidden[layer], cells[layer] = lstm_cell(read, hidden[layer], cells[layer], weights, order)
            read = hidden[layer] if layer_noise is None else hidden[layer] * layer_noise[t][layer]
        scores = torch.stack([hidden[-1] @ (decoder.attention_key.weight @ value) for value in values])
        context = torch.softmax(scores, 0) @ values
        attentional = torch.tanh(joined @ torch.cat([context, hidden[-1]]))
        if layer_noise is not None:
            attentional = attentional * layer_noise[t][-1]
        outputs.append(attentional)
    return torch.stack(outputs)


def log_probs(model, source, inputs):
    of_kind = naive_transformer if model.config.kind == "transformer" else sys.modules[__name__]
    states = of_kind.hidden_states(model, source, inputs)
    return torch.log_softmax(states @ model.output.weight.T + model.output.bias, -1)


@torch.no_grad()
def all_translations(model, source, maximum, minimum=0, forbidden=(PAD, BOS)):
    """Log-probability of every translation, as {tokens: log_prob}."""
    words = [word for word in range(model.target_size) if word not in (*forbidden, EOS)]
    found = {}
    for length in range(minimum, maximum + 1):
        for tokens in itertools.product(words, repeat=length):
            rows = log_probs(model, source, [BOS, *tokens])
            found[tokens] = sum(float(row[token]) for row, token in zip(rows, [*tokens, EOS], strict=True))
    return found
