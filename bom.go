package lockstep

import (
	"bufio"
	"bytes"
	"io"
)

// skipBOM drops a UTF-8 byte order mark at the start of the text.
func skipBOM(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 1<<16)
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		b.Discard(3)
	}
	return b
}
