"""The words that built-in tasks are made of.

Invariant: every word is short, common, lower-case English, no Python keyword, builtin or standard module, and in one
list only, so that a small byte-pair vocabulary holds each in one token and any word can name a variable, a file or a
package.
"""

_VERBS = """
add bind book build call cast check clean close count cut draw drop fetch fill find fix fold gain get give grow hold
join keep lead lift link load look make mark meet mix move name pack pay pick plan play pull push rank read rent save
scan seek sell send show skip sort stack start store take tell trim turn
"""
_NOUNS = """
apple area bag ball bank barn base beam bean bear bed bell belt bench bike bird block boat bone boot bowl box boy brick
bridge brush bus cable cake camp cap card cash castle cell chain chair chart city clock cloth cloud club coal coat coin
corn cost cow crew crop cup deck desk dish dock dog door dress drum duck edge egg farm fee field film fire fish flag
floor flow frame frog fruit game gate gift girl glass goal gold grain grass guard guest hall hand hat head heart hill
home horse hotel house ink iron item jar job juice key king kite knot lake lamp land lane leaf leg lens level lid lime
line lion lock log lunch mask meal meat menu milk mine moon mouse mud nail nest net node nose note oak oil orbit order
oven owl page pair park part path pear phone piano pipe plane plant plate point pole pond pool port price prize rail
rain rate ring river road rock roof room root rope rose route row rule sail salt sand scale school seat seed shape sheep
shell ship shop sky
"""

VERBS: tuple[str, ...] = tuple(_VERBS.split())
"""First words of function names."""

NOUNS: tuple[str, ...] = tuple(_NOUNS.split())
"""Second words of function names, and the names of variables, keys, files and packages."""
