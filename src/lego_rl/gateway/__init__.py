"""The gateway: speaks the harness's wire format on one side and token ids on the other, and writes down every token."""
