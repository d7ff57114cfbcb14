"""The gateway: speaks the harness's wire format on one side and token ids on the other, and writes down every token.

To read it, follow a request: `server` (one listener a trial), `respond` (from the body to the last byte; the wire
formats are in `dialects`), `session` (budget, and what is in flight), `placing` (what it continues, and which ids are
new), `tree` (all calls of the trial), `call` (one of them). Then its record: `accounting` (fates, roles, counts),
`segments` (what is trained), `store` (files). Each other module is a part of one of these.
"""
