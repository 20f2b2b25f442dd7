package fetch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// archive has files of these names and contents, one after the other.
func archive(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, err := z.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, files[i+1])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostile: whatever a server answers, there is an error that says what is wrong, and nothing
// is left, but of an answer that ends too early what has come. The next attempt, with an honest
// server, goes well, or after one more that finds out that what had come was false.
func TestHostile(t *testing.T) {
	honest := archive(t, "00000.csv", "content")
	known := map[string]string{"00000.csv": sum([]byte("content"))}
	plain := httptest.NewServer(serve(honest))
	defer plain.Close()
	bytesOf := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }
	}
	bomb := archive(t, "00000.csv", strings.Repeat("0", 1<<20))
	at := bytes.LastIndex(bomb, []byte("PK\x01\x02")) // of the directory's entry
	binary.LittleEndian.PutUint32(bomb[at+24:], 7)    // bytes that it says it has
	huge := bytes.Clone(bomb)
	binary.LittleEndian.PutUint32(huge[at+24:], 1<<32-2)
	for _, c := range []struct {
		what, says string
		answer     http.HandlerFunc
		left       int
	}{
		{"redirected to where anybody may answer", "which is not https",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, plain.URL, http.StatusFound)
			}, 0},
		{"redirected for ever", "redirected 10 times",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/again", http.StatusFound)
			}, 0},
		{"redirected to a file", "which is not https",
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "file:///etc/passwd")
				w.WriteHeader(http.StatusFound)
			}, 0},
		{"truncated", "unexpected EOF; the same command goes on",
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(honest)))
				w.Write(honest[:20])
			}, 1},
		{"truncated before the first byte", "unexpected EOF",
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(honest)))
			}, 0},
		{"truncated, and said to be whole", "the archive is damaged",
			bytesOf(honest[:len(honest)-9]), 0},
		{"without end", "more than the 65536 bytes that it may have",
			func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					w.Write(make([]byte, 1<<12))
				}
			}, 0},
		{"more than was said", "the archive is damaged",
			func(w http.ResponseWriter, _ *http.Request) {
				connection, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					fmt.Fprintf(
						connection, "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n%s", honest,
					)
					connection.Close()
				}
			}, 0},
		{"another text", "the archive is damaged", bytesOf([]byte("<html>sign in</html>")), 0},
		{"other routes", "not the challenge's routes: 00000.csv has",
			bytesOf(archive(t, "00000.csv", "other")), 0},
		{"no routes", "holds no routes", bytesOf(archive(t, "notes.txt", "x")), 0},
		{"routes without the known ones", "00000.csv is not among them",
			bytesOf(archive(t, "1.csv", "x")), 0},
		{"one route twice", "two files are named",
			bytesOf(archive(t, "00000.csv", "x", "a/00000.csv", "y")), 0},
		{"a route that is larger than said", "damaged", bytesOf(bomb), 0},
		{"routes larger than a disk", "", bytesOf(huge), 0},
		{"an error", "500 Internal",
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 0},
		{"a part that was not asked for", "asked to go on at byte 0",
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusPartialContent)
			}, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			hostile := httptest.NewTLSServer(c.answer)
			defer hostile.Close()
			client := hostile.Client()
			client.CheckRedirect = secure
			s := &Server{Client: client, Idle: time.Minute, Limit: 1 << 16}
			out := t.TempDir()
			_, _, err := s.routes(t.Context(), hostile.URL+"/%s", "", out, known)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
			if left := leftBehind(out); len(left) != c.left {
				t.Errorf("left behind: %v", left)
			}
			if got, _, err := fetchRoutes(t, out, serve(honest), known); err != nil {
				t.Errorf("afterwards, from an honest server: %q, %v", got, err)
			}
		})
	}
}

// TestHostileParts: what goes on elsewhere than was asked for, or with other bytes, is not used.
func TestHostileParts(t *testing.T) {
	honest := archive(t, "00000.csv", "content")
	known := map[string]string{"00000.csv": sum([]byte("content"))}
	for says, answer := range map[string]http.HandlerFunc{
		"asked to go on at byte 20": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.WriteHeader(http.StatusPartialContent)
			w.Write(honest[:10])
		},
		"the archive is damaged": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range",
				fmt.Sprintf("bytes 20-%d/%d", len(honest)-1, len(honest)))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, len(honest)-20))
		},
		// all of it is there, it says
		"archive is damaged": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		},
	} {
		out := t.TempDir()
		_, _, err := fetchRoutes(
			t, out,
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(honest)))
				w.Write(honest[:20])
			}),
			known,
		)
		if err == nil || len(leftBehind(out)) != 1 {
			t.Errorf("%v, left behind %v", err, leftBehind(out))
		}
		if _, _, err = fetchRoutes(t, out, answer, known); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one with %q", err, says)
		}
		if left := leftBehind(out); len(left) != 0 {
			t.Errorf("%s: left behind %v", says, left)
		}
	}
}
