# Lines of more than 100 columns, a tab being 4. Not of Markdown's tables, blocks and what programs
# write there; nor of what cannot be broken: a field's tag, a directive, and files that programs
# write. Run with LC_ALL=C: a character of UTF-8 is one column.
FNR == 1 {
    block = 0
    made = /^\/\/ (Code generated|Made by) /
}
/^ *```/ { block = !block }
{
    markdown = FILENAME ~ /\.md$/
    line = $0
    gsub(/\t/, "    ", line)
    gsub(/[\200-\277]/, "", line)
}
made || length(line) <= 100 { next }
markdown && (block || /^(\||    |<!--|Run without a fault:)/ || /faults caught;/) { next }
!markdown && /^\/\/   / { next } # a table in a comment
/^\/\/go:/ || /^\t+[A-Z][A-Za-z0-9]* +[][A-Za-z0-9_.*]+ +`[^`]*"`$/ { next }
{
    printf "%s:%d: %d columns, want 100 at most\n", FILENAME, FNR, length(line)
    failed = 1
}
END { exit failed }
