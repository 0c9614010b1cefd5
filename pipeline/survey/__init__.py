"""Where a history's commits go, and what of it an index could do without.

- `plan`: the line: repository -> shares of its directories, and suggested ignore patterns
- `patterns`: directories -> the patterns to suggest, by stated rules; what is never suggested
- `effect`: patterns -> the commits and hunks they leave out
- `directories`: changes -> what happened in each directory
- `changed`: which paths each commit changed, from the git program
- `roles`: what a file is for: the program, its tests, its documentation, or what goes with it
- `kinds`: what a file is: code, prose, data, or made by a program
"""
