"""Regular expressions that no pattern makes slow, in the syntax of RE2.

Python's `re` tries alternatives one after the other, which takes exponential time for some patterns, such as
`(a+)+b`. Here a pattern is a program whose possible states are followed all at once, character by character
(Ken Thompson, Regular Expression Search Algorithm, 1968; https://swtch.com/~rsc/regexp/regexp1.html). Time is
linear in the length of the text. The collector uses RE2 itself.

The syntax is that of RE2 (https://github.com/google/re2/wiki/Syntax), without names of scripts such as
`\\p{Greek}`. Classes such as `\\d` are ASCII, as in RE2.

pattern        a compiled pattern, which matches texts
compiler       translates a pattern into a program
program        the instructions of a program, and sets of characters
"""
