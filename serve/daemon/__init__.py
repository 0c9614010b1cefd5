"""One process that answers for all of a person's sessions, so that models are loaded once.

- `address`: where the daemon of a home is met, and which program it must be
- `client`: questions put to the daemon, started where there is none
- `commands`: `lineage serve` and `lineage daemon`
- `life`: what is loaded, what runs, and when it is time to go
- `service`: the daemon itself: HTTP on a socket of the person's own
- `starting`: one daemon, however many want one at once
- `wire`: questions, answers and errors as they travel
"""
