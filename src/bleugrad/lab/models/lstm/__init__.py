"""The paper's translation model: an LSTM with attention."""
