# Lines of more than 100 columns: of Markdown all but tables, blocks and what programs write
# there; of code the comments, and with -v code=1 all of it. Run with LC_ALL=C: a character of UTF-8 is one column.
FNR == 1 { block = 0 }
/^ *```/ { block = !block }
{
    markdown = FILENAME ~ /\.md$/
    line = $0
    gsub(/\t/, "    ", line)
    gsub(/[\200-\277]/, "", line)
}
length(line) <= 100 { next }
markdown && (block || /^(\||    |<!--|Run without a fault:)/ || /faults caught;/) { next }
!markdown && /^\/\/   / { next } # a table in a comment
!markdown && !code && !/^[ \t]*\/\/ [^ ]/ { next }
/^\/\/ Code generated/ { next }
{
    printf "%s:%d: %d columns, want 100 at most\n", FILENAME, FNR, length(line)
    failed = 1
}
END { exit failed }
