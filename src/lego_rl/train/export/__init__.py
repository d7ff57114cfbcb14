"""A trained policy as the Hugging Face folder that it started from: `sources` reads checkpoints, `fit` says which
trained tensor is which of the folder's, `folder` writes it."""
