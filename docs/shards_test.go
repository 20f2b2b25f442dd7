package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestShardExamples: the examples for clusters compute each part of a plan of as many parts as they
// say, from 0 on, and no other. Here each computes a plan of two.
func TestShardExamples(t *testing.T) {
	folder := scratch(t)
	for _, c := range []struct {
		file     string
		parts    string // a pattern: the first part, if it is said, and the last or how many
		variable string // says which part a task computes
		command  func(text, out string) []string
	}{
		{
			"slurm.sh", `(?m)^#SBATCH --array=(\d+)-(\d+)$`, "SLURM_ARRAY_TASK_ID",
			func(text, out string) []string { return []string{"sh", "-c", text, "sh", out} },
		},
		{
			"kubernetes.yaml", `(?m)^  (completions): (\d+) # --shards of the plan$`,
			"JOB_COMPLETION_INDEX",
			func(text, out string) []string {
				_, text, _ = strings.Cut(text, "command: [sh, -c, '")
				text, _, _ = strings.Cut(text, "']")
				return []string{"sh", "-c", strings.ReplaceAll(text, "/runs/RUN", out)}
			},
		},
	} {
		text := string(read(t, filepath.Join("examples", c.file)))
		planned := regexp.MustCompile(`shard plan .*--shards (\d+) `).FindStringSubmatch(text)
		parts := regexp.MustCompile(c.parts).FindStringSubmatch(text)
		if planned == nil || parts == nil {
			t.Errorf("%s: it plans %q, and computes %q", c.file, planned, parts)
			continue
		}
		n, _ := strconv.Atoi(parts[2])
		if parts[1] == "0" {
			n++ // the last is said
		} else if parts[1] != "completions" {
			t.Errorf("%s: the first part is %s", c.file, parts[1])
		}
		if fmt.Sprint(n) != planned[1] {
			t.Errorf("%s: %s parts are planned, and %d computed", c.file, planned[1], n)
		}
		out := filepath.Join(folder, "runs", c.file)
		script := "echo 0.3,0.1,0 >grid.txt; lockstep shard plan --own --num_segs 2 " +
			"--pid-grid grid.txt --shards 2 --out " + out
		execute(t, c.file+": the plan", folder, "sh", "-c", script)
		for part := range 2 {
			which := fmt.Sprintf("%s=%d", c.variable, part)
			execute(t, c.file, folder, "env", append([]string{which}, c.command(text, out)...)...)
		}
		execute(t, c.file+": all parts", folder, "sh", "-c", "lockstep shard merge --out "+out)
	}
}
