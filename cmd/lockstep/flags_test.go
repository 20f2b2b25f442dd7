package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
)

// A heeded flag: with more words a command says what it does not say without them. With says "*"
// it says anything else, with a file it leaves one. Or a test shows it, or no result can.
type heeded struct {
	more, says, file, test, why string
}

// everywhere are lines of flags that many commands have, unless the command has its own. What a
// command refuses of a flag shows that it has read it, and passed it on to what refuses it.
var everywhere = map[string]heeded{
	"model_path":  {more: "--model_path none.onnx", says: "none.onnx"},
	"data_path":   {more: "--data_path none.csv", says: "none.csv"},
	"own":         {more: "--own --model_path x.onnx", says: "--own is the project's network"},
	"num_segs":    {more: "--num_segs 0", says: "--num_segs 0: want 1 or more"},
	"workers":     {why: "the same bits on any number of cores: TestOptions of engines"},
	"profile":     {more: "--profile none", says: `profile "none"`},
	"seed_prefix": {more: "--seed_prefix other", says: "*"},
	"no-cache":    {why: "the same routes, from a cache or not: tests of routecache"},
	"engine": {more: "--engine emulated --kernels go",
		says: "the emulated engine has none to choose"},
	"kernels": {more: "--kernels none", says: "--kernels: "},
	"timeout": {more: "--C c.py --timeout 0s", says: "--timeout 0s: want more than 0s"},
	"memory":  {more: "--C c.py --memory=-1", says: "--memory -1: want 0 or more"},
	"sandbox": {why: "TestSandbox of pycontroller: it takes a Python with NumPy"},
	"pid":     {more: "--pid 1,2", says: "--pid "},
	"pid-grid": {more: "--pid-grid none.txt",
		says: "--pid-grid open none.txt"},
	"controller": {more: "--controller mpc", says: `--controller "mpc": want one of`},
	"report":     {more: "--report r.html", file: "r.html"},
	"json":       {more: "--json", says: `{"`},
}

// environmentFlags are those of classic control, where --env is given.
var environmentFlags = map[string]heeded{
	"env":       {more: "--env Pendulum-v1", says: "*"},
	"num-envs":  {more: "--num-envs 3", says: "*"},
	"steps":     {more: "--steps 31", says: "*"},
	"policy":    {more: "--policy none.npz", says: "none.npz"},
	"env-seed":  {more: "--env-seed 7", says: "*"},
	"option":    {more: "--option none=1", says: "none"},
	"autoreset": {more: "--autoreset none", says: "none"},
	"numpy1":    {test: "TestRolloutEnvFlags"},
}

// commandFlags are the words of each command, and its own flags. C is its flag of a controller.
var commandFlags = map[string]struct {
	words, c string
	flags    map[string]heeded
}{
	"rollout": {"--data_path R", "controller", map[string]heeded{
		"trace":        {more: "--trace t.trace", file: "t.trace"},
		"trace-values": {test: "TestCompareTraces"},
		"stats":        {more: "--stats", says: "set-up"},
		"debug":        {test: "TestRolloutText"},
		"out":          {more: "--out kept", file: "kept/plan.json"},
	}},
	"eval": {"--data_path R --report e.html", "test_controller", map[string]heeded{
		"test_controller":     {more: "--test_controller zero", says: "test      zero"},
		"baseline_controller": {more: "--baseline_controller zero", says: "baseline  zero"},
		"csv":                 {more: "--csv e.csv", file: "e.csv"},
		"parquet":             {more: "--parquet e.parquet", file: "e.parquet"},
		"out":                 {more: "--out evaluated", file: "evaluated/plan.json"},
	}},
	"compare": {"reference batched --data_path R", "controller", map[string]heeded{
		"seed_prefix":  {test: "TestSeedPrefix"},
		"inexact":      {more: "--inexact --keep k", says: "does not go with"},
		"budget":       {more: "--budget 3", says: "--budget 3: want 0"},
		"only":         {more: "--only none", says: "no rollout has such a name"},
		"keep":         {test: "TestCompareKeep"},
		"allow-absent": {test: "TestCompareStatus"},
	}},
	"replay": {"../../CASE --engines reference", "", map[string]heeded{
		"model_path":   {test: "TestCompareReplay"},
		"engines":      {more: "--engines batched", says: "batched"},
		"allow-absent": {test: "TestCompareReplay"},
	}},
	"tune": {"--data_path R --kind pid --population 8 --generations 1 --gains g.json", "",
		map[string]heeded{
			"kind":        {more: "--kind pidff", says: "pidff"},
			"population":  {more: "--population 7", says: "a population of 7"},
			"generations": {more: "--generations 2", says: "generation  2"},
			"budget":      {more: "--budget 1ns", says: "--budget 1ns"},
			"seed":        {more: "--seed 2", says: "*"},
			"out":         {more: "--out tuned", file: "tuned/plan.json"},
			"gains":       {more: "--gains h.json", file: "h.json"},
			"python":      {more: "--python h.py", file: "h.py"},
		}},
	"plan": {"--data_path R --noise expected --rounds 1 --table a.json", "from",
		map[string]heeded{
			"from":    {more: "--from zero", says: "from zero to"},
			"noise":   {more: "--noise own", says: "own noise"},
			"rounds":  {more: "--rounds 2", says: "*"},
			"window":  {more: "--noise route --window 0", says: "window"},
			"horizon": {more: "--noise route --horizon 0", says: "horizon"},
			"seeds":   {more: "--noise seeded --seeds 0", says: "seeds"},
			"seed":    {more: "--noise expected --seed 2", says: "*"},
			"out":     {more: "--out planned", file: "planned/plan.json"},
			"table":   {more: "--table b.json", file: "b.json"},
		}},
	"export": {"pid --out x.py --unchecked", "", map[string]heeded{
		"out":       {more: "--out y.py", file: "y.py"},
		"unchecked": {test: "TestStandardOutput"},
	}},
	"shard plan": {"--data_path R --out S --shards 1", "controller", map[string]heeded{
		"out":     {more: "--out S2", file: "S2/plan.json"},
		"engine":  {test: "TestShardFlags"},
		"kernels": {more: "--kernels go", says: "a plan has none to choose"},
		"shards":  {more: "--shards 0", says: "0 shards"},
	}},
	"shard run": {"--out S --index 0", "", map[string]heeded{
		"out":   {more: "--out none", says: "none"},
		"index": {more: "--index 7", says: "shard 7: the plan has 1"},
	}},
	"shard merge": {"--out S", "", map[string]heeded{
		"out": {more: "--out none", says: "none"},
	}},
	"bench": {"", "", map[string]heeded{
		"jobs":        {more: "--jobs 0", says: "--jobs 0"},
		"repetitions": {more: "--repetitions 0", says: "--repetitions 0"},
		"upstream":    {more: "--upstream none", says: "none is no checkout"},
		"python":      {test: "TestBenchEnv"},
		"kernels":     {more: "--kernels none", says: `"none"`},
		"json":        {test: "TestBenchOwn"},
	}},
}

var _ = bytes.MinRead
var _ = fmt.Sprint
var _ = os.Stat
var _ = filepath.Join
var _ = strings.Cut
var _ = assetstest.Model
var _ = defaults.Keep

func TestFlags(t *testing.T) {}
