package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// file is one of an archive. Its time is none, and its owner nobody.
type file struct {
	name string
	mode fs.FileMode
	text []byte
}

// archive writes the archive of a platform: .zip for Windows, else .tar.gz.
func archive(out, platform, version, binary string, third []byte) error {
	name := "lockstep_" + version + "_" + strings.ReplaceAll(platform, "/", "_")
	executable := "lockstep"
	if strings.HasPrefix(platform, "windows/") {
		executable += ".exe"
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files := []file{
		{path.Join(name, executable), 0o755, text}, {path.Join(name, licences), 0o644, third},
	}
	for _, also := range []string{"LICENSE", "README.md", changeLog} {
		text, err := os.ReadFile(also)
		if err != nil {
			return err
		}
		files = append(files, file{path.Join(name, also), 0o644, text})
	}
	pack, suffix := tarred, ".tar.gz"
	if strings.HasPrefix(platform, "windows/") {
		pack, suffix = zipped, ".zip"
	}
	packed, err := pack(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name+suffix), packed, 0o666)
}

func tarred(files []file) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode),
			Size: int64(len(f.text)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

func zipped(files []file) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
