package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one that a program is built of.
type module struct {
	Path, Version string
}

// goModule stands for Go's own library.
const goModule = "std"

// modulesOf are the modules of programs, all of them, by path.
func modulesOf(binaries ...string) ([]module, error) {
	all := map[string]string{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		all[goModule] = strings.TrimPrefix(info.GoVersion, "go")
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			all[d.Path] = d.Version
		}
	}
	var modules []module
	for _, path := range slices.Sorted(maps.Keys(all)) {
		modules = append(modules, module{path, all[path]})
	}
	return modules, nil
}

// sbom is a list of what a release is made of, as CycloneDX 1.5 has it.
func sbom(version, commit string, modules []module) []byte {
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	of := func(kind, path, version string) component {
		purl := "pkg:golang/" + path + "@" + version
		return component{kind, purl, path, version, purl}
	}
	var doc struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Version  int    `json:"version"`
		Metadata struct {
			Component  component `json:"component"`
			Properties []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"properties"`
		} `json:"metadata"`
		Components []component `json:"components"`
	}
	doc.Format, doc.Spec, doc.Version = "CycloneDX", "1.5", 1
	doc.Metadata.Component = of("application", "lockstep", version)
	doc.Metadata.Properties = append(doc.Metadata.Properties, struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}{"lockstep:commit", commit})
	for _, m := range modules {
		doc.Components = append(doc.Components, of("library", m.Path, m.Version))
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // strings
	}
	return append(text, '\n')
}

var licencePattern = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licencesOf are the texts of the modules' licences, which whoever gives the program to others
// has to give them, too. A module without any is an error.
func licencesOf(modules []module) ([]byte, error) {
	var b bytes.Buffer
	for _, m := range modules {
		folder, err := folderOf(m)
		if err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if !licencePattern.MatchString(e.Name()) || e.IsDir() {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(
				&b, "==== %s %s: %s\n\n%s\n\n", m.Path, m.Version, e.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("module %s %s has no licence: %s", m.Path, m.Version, folder)
		}
	}
	return b.Bytes(), nil
}

// folderOf is where a module's sources are.
func folderOf(m module) (string, error) {
	args := []string{"list", "-m", "-f", "{{.Dir}}", m.Path}
	if m.Path == goModule {
		args = []string{"env", "GOROOT"}
	}
	command := exec.Command("go", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	folder := strings.TrimSpace(string(out))
	if err == nil && folder == "" {
		err = fmt.Errorf("module %s is not on this machine: run `go mod download`", m.Path)
	}
	return folder, err
}
