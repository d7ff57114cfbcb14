"""How texts are read that anybody wrote: in a time that grows with them, and without an error for what is none."""
