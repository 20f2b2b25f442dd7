// Command record records the goldens of the classic control environments.
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"lockstep/golden/classic"
	"lockstep/internal/fileio"
)

func main() {
	folder := flag.String("folder", "golden/classic", "folder of record.py")
	python := flag.String("python", "", "Python with requirements.txt")
	python1 := flag.String("python1", "", "Python with requirements-numpy1.txt")
	flag.Parse()
	for name, p := range map[string]string{"numpy2": *python, "numpy1": *python1} {
		if err := record(*folder, name, p); err != nil {
			fmt.Fprintln(os.Stderr, "record:", err)
			os.Exit(1)
		}
	}
}

func record(folder, name, python string) error {
	if python == "" {
		return nil
	}
	script := filepath.Join(folder, "record.py")
	r, err := classic.Record(context.Background(), python, script, classic.Cases(name == "numpy1"))
	if err != nil {
		return err
	}
	if name == "numpy2" {
		lists, err := exec.Command(python, script, "--lists").Output()
		if err != nil {
			return err
		}
		if err := write(filepath.Join(folder, "testdata", "functions.json.gz"),
			json.RawMessage(lists)); err != nil {
			return err
		}
	}
	return write(filepath.Join(folder, "testdata", name+".json.gz"), r)
}

func write(path string, value any) error {
	return fileio.Write(path, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(z).Encode(value); err != nil {
			return err
		}
		return z.Close()
	})
}
