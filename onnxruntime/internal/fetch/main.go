// Fetch puts ONNX Runtime's shared library into the user's cache folder, unless
// it is there already.
//
// The library comes out of the PyPI wheel: 23 MB to load, where npm's package
// has the libraries of all systems, and the very file that the recordings were
// made with. pip is only asked to download; nothing is installed.
package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"lockstep/internal/fileio"
	"lockstep/onnxruntime/internal/ortlib"
)

func main() {
	path, err := fetch()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onnxruntime:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func fetch() (string, error) {
	if path := os.Getenv(ortlib.Variable); path != "" {
		return path, ortlib.Check(path)
	}
	if platform := runtime.GOOS + "/" + runtime.GOARCH; platform != ortlib.Platform {
		return "", fmt.Errorf("no library is pinned for %s: set %s to a libonnxruntime of version %s", platform, ortlib.Variable, ortlib.Version)
	}
	path, err := ortlib.CachePath()
	if err != nil {
		return "", err
	}
	if sum, err := fileio.SHA256(path); err == nil && sum == ortlib.SHA256 {
		return path, nil
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	// Beside the target, so that the last step is a rename within one file system.
	work, err := os.MkdirTemp(folder, "fetch-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := download(work); err != nil {
		return "", err
	}
	wheels, _ := filepath.Glob(filepath.Join(work, "*.whl"))
	if len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels, want 1", len(wheels))
	}
	library := filepath.Join(work, ortlib.FileName)
	if err := extract(wheels[0], "onnxruntime/capi/"+ortlib.FileName, library); err != nil {
		return "", err
	}
	sum, err := fileio.SHA256(library)
	if err != nil {
		return "", err
	}
	if sum != ortlib.SHA256 {
		return "", fmt.Errorf("the library in %s has SHA-256 %s, want %s: not used", filepath.Base(wheels[0]), sum, ortlib.SHA256)
	}
	return path, os.Rename(library, path)
}

// download has pip load the wheel for the pinned platform, whatever Python it
// runs on.
func download(folder string) error {
	arguments := []string{
		"download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
		"--platform", "manylinux_2_28_x86_64", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311",
		"--dest", folder, "onnxruntime==" + ortlib.Version,
	}
	var failures []string
	for _, client := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}} {
		output, err := exec.Command(client[0], append(client[1:], arguments...)...).CombinedOutput()
		if err == nil {
			return nil
		}
		reason := strings.TrimSpace(string(output))
		if reason == "" {
			reason = err.Error()
		}
		failures = append(failures, strings.Join(client, " ")+": "+reason)
	}
	return fmt.Errorf("pip could not download onnxruntime %s:\n%s", ortlib.Version, strings.Join(failures, "\n"))
}

// extract copies one file out of a wheel.
func extract(wheel, name, to string) (err error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	in, err := z.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
