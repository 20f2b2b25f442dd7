// Fetch puts ONNX Runtime's shared library into the user's cache folder, unless
// it is there already.
//
// The library comes out of the PyPI wheel: 23 MB to download, where npm's package
// has the libraries of all systems, and the very file that the recordings were
// made with. pip is only asked to download; nothing is installed.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"lockstep/batched/onnxruntime/internal/ortlib"
	"lockstep/internal/fetch"
	"lockstep/internal/fileio"
)

func main() {
	path, err := library()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onnxruntime:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

// downloads is the pattern of the folders that wheels are downloaded into.
const downloads = "fetch-*"

// library returns the library's path, and downloads the library first if it is not there.
func library() (string, error) {
	if path := os.Getenv(ortlib.Variable); path != "" {
		return path, ortlib.Check(path)
	}
	pinned, ok := ortlib.Pinned()
	if !ok {
		return "", fmt.Errorf(
			"no library is pinned for %s/%s: set %s to a libonnxruntime of version %s",
			runtime.GOOS, runtime.GOARCH, ortlib.Variable, ortlib.Version,
		)
	}
	if path, err := ortlib.Find(); err == nil {
		return path, nil
	}
	path, err := ortlib.CachePath()
	if err != nil {
		return "", err
	}
	folder := filepath.Dir(path)
	lock, err := fetch.Lock(folder)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	leftovers, _ := fileio.Glob(folder, downloads) // of a killed fetch
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	// Beside the target, so that the last step is a rename within one file system.
	work, err := os.MkdirTemp(folder, downloads)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := download(work, pinned.Wheel); err != nil {
		return "", err
	}
	wheels, _ := fileio.Glob(work, "*.whl")
	if len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels, want 1", len(wheels))
	}
	file := filepath.Join(work, ortlib.FileName)
	if err := fetch.Extract(wheels[0], "onnxruntime/capi/"+ortlib.FileName, file); err != nil {
		return "", err
	}
	sum, err := fileio.SHA256(file)
	if err != nil {
		return "", err
	}
	if sum != pinned.SHA256 {
		return "", fmt.Errorf(
			"the library in %s has SHA-256 %s, want %s: not used", filepath.Base(wheels[0]), sum,
			pinned.SHA256,
		)
	}
	if err := os.Rename(file, path); err != nil {
		return "", err
	}
	return path, fileio.SyncDir(folder)
}

// download has pip download the wheel for a platform, whatever Python pip runs on.
func download(folder, platform string) error {
	arguments := []string{
		"download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:",
		"--platform", platform, "--python-version", "3.11", "--implementation", "cp",
		"--abi", "cp311", "--dest", folder, "onnxruntime==" + ortlib.Version,
	}
	var failures []string
	for _, client := range [][]string{
		{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"},
	} {
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
	return fmt.Errorf(
		"pip could not download onnxruntime %s:\n%s", ortlib.Version, strings.Join(failures, "\n"),
	)
}
