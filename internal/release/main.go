// Command release builds what is published of a version: the program for each platform in an
// archive with its licences, a list of what is in it (SBOM, CycloneDX), and the checksums of all.
// It runs at the root of the project. The same commit gives the same bytes in any folder.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	program   = "./cmd/lockstep"
	sumsName  = "SHA256SUMS"
	licences  = "THIRD_PARTY.txt"
	changeLog = "CHANGELOG.md"
	python    = "python/lockstep/_version.py"
)

func main() {
	version := flag.String("version", "", "such as 1.2.3")
	out := flag.String(
		"out", "",
		"the folder that is written to; what else it holds, such as wheels, has its checksum, "+
			"too; without it nothing is built, and only whether that can be released is said")
	platforms := flag.String("platforms", "", "such as \"linux/amd64 windows/amd64\"")
	flag.Parse()
	if err := run(*version, *out, strings.Fields(*platforms)); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(version, out string, platforms []string) error {
	if out != "" && len(platforms) == 0 {
		return errors.New("want -platforms with -out")
	}
	if err := check(".", version); err != nil {
		return err
	}
	commit, err := head(".")
	if err != nil || out == "" {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "lockstep-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var binaries []string
	for _, platform := range platforms {
		binary := filepath.Join(work, strings.ReplaceAll(platform, "/", "_"))
		if err := build(platform, version, commit, binary); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		binaries = append(binaries, binary)
	}
	modules, err := modulesOf(binaries...)
	if err != nil {
		return err
	}
	third, err := licencesOf(modules)
	if err != nil {
		return err
	}
	for i, platform := range platforms {
		if err := archive(out, platform, version, binaries[i], third); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(out, "lockstep_"+version+".cdx.json"),
		sbom(version, commit, modules), 0o666); err != nil {
		return err
	}
	return writeSums(out)
}

var versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// check refuses a version that the project's files do not name.
func check(root, version string) error {
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("version %q: want one such as 1.2.3", version)
	}
	changes, err := os.ReadFile(filepath.Join(root, changeLog))
	if err != nil {
		return err
	}
	heading := regexp.MustCompile(
		`(?m)^## \[` + regexp.QuoteMeta(version) + `\] - \d{4}-\d{2}-\d{2}$`,
	)
	if !heading.Match(changes) {
		return fmt.Errorf(
			"%s has no heading such as \"## [%s] - 2006-01-02\": say there what is new", changeLog,
			version)
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(python)))
	if err != nil {
		return err
	}
	if !bytes.Contains(text, fmt.Appendf(nil, "__version__ = %q\n", version)) {
		return fmt.Errorf("%s is of another version: set __version__ to %q", python, version)
	}
	return nil
}

// head is the commit that is built. What nobody has committed nobody can build again.
func head(root string) (string, error) {
	git := func(args ...string) (string, error) {
		command := exec.Command("git", args...)
		command.Dir, command.Stderr = root, os.Stderr
		out, err := command.Output()
		return strings.TrimSpace(string(out)), err
	}
	switch changed, err := git("status", "--porcelain"); {
	case err != nil:
		return "", fmt.Errorf("git status: %w", err)
	case changed != "":
		return "", fmt.Errorf(
			"there are changes that are not committed: commit them, or take them back\n%s", changed)
	}
	return git("rev-parse", "HEAD")
}

// build builds the program for a platform. Of the environment it takes nothing that would
// change it, and no path is in it.
func build(platform, version, commit, to string) error {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return errors.New("want a platform such as linux/amd64")
	}
	command := exec.Command(
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
		"-s -w -buildid= -X main.version="+version+" -X main.commit="+commit, "-o", to, program,
	)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine,
		"GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command.Run()
}

// writeSums writes the checksums of all files of a folder, as sha256sum -c reads them.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		if e.Name() == sumsName || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(text), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(folder, sumsName), []byte(strings.Join(lines, "")), 0o666)
}
