"""How the shipped policy was taught: demonstrations, their capture and the training on them. No part of the package."""
