"""The Transformer from its definition, in loops over positions and heads, straight from the parameters."""

import math

import torch


def normalised(vector, norm):
    centred = vector - vector.sum() / len(vector)
    variance = (centred * centred).sum() / len(vector)
    return norm.weight * centred / torch.sqrt(variance + norm.eps) + norm.bias


def linear(layer, vector):
    return layer.weight @ vector + layer.bias


def code(position, width, dtype):
    """Sine and cosine of position / 10000 ** (2 i / width), side by side."""
    values = []
    for i in range(width):
        angle = position / 10000 ** (2 * (i // 2) / width)
        values.append(math.cos(angle) if i % 2 else math.sin(angle))
    return torch.tensor(values, dtype=dtype)


def attention(part, query, read):
    """What one position reads from the vectors ``read``."""
    width, size = len(query), len(query) // part.heads
    asked = linear(part.query, query)
    pairs = [linear(part.key_value, vector) for vector in read]
    found = []
    for head in range(part.heads):
        here = slice(head * size, (head + 1) * size)
        scores = [(asked[here] * pair[:width][here]).sum() / math.sqrt(size) for pair in pairs]
        highest = max(float(score.detach()) for score in scores)
        weights = [torch.exp(score - highest) for score in scores]
        found.append(
            sum(weight * pair[width:][here] for weight, pair in zip(weights, pairs, strict=True)) / sum(weights)
        )
    return linear(part.output, torch.cat(found))


def feed_forward(layer, vector):
    return linear(layer.outer, torch.clamp(linear(layer.inner, normalised(vector, layer.inner_norm)), min=0))


def embedded(embedding, tokens):
    width = embedding.weight.shape[1]
    return [
        embedding.weight[token] * math.sqrt(width) + code(place, width, embedding.weight.dtype)
        for place, token in enumerate(tokens)
    ]


def encoded(model, source):
    states = embedded(model.source_embedding, source)
    for layer in model.encoder:
        normal = [normalised(state, layer.own_norm) for state in states]
        states = [state + attention(layer.own, one, normal) for state, one in zip(states, normal, strict=True)]
        states = [state + feed_forward(layer, state) for state in states]
    return [normalised(state, model.encoder_norm) for state in states]


def hidden_states(model, source, inputs, noise=None):
    """(T, H); ``noise`` (P, T, H) multiplies the embeddings and what each part of each layer adds."""
    read = encoded(model, source)
    states = embedded(model.target_embedding, inputs)
    noise = torch.ones(1 + 3 * len(model.decoder), *torch.stack(states).shape) if noise is None else noise
    states = [state * noise[0, t] for t, state in enumerate(states)]
    for number, layer in enumerate(model.decoder):
        of_own, of_source, of_inner = noise[1 + 3 * number : 4 + 3 * number]
        normal = [normalised(state, layer.own_norm) for state in states]
        states = [
            state + of_own[t] * attention(layer.own, normal[t], normal[: t + 1]) for t, state in enumerate(states)
        ]
        states = [
            state + of_source[t] * attention(layer.reading, normalised(state, layer.reading_norm), read)
            for t, state in enumerate(states)
        ]
        states = [state + of_inner[t] * feed_forward(layer, state) for t, state in enumerate(states)]
    return torch.stack([normalised(state, model.decoder_norm) for state in states])
