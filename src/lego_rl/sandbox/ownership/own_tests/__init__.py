"""What the task's tests are, and what lies around them."""
