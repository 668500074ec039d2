"""What a person reads after a run: a table in the terminal (`terminal`) and one page (`page`); it measures nothing.

Charts take a second to load: import `page` where a page is written, and not before.
"""
