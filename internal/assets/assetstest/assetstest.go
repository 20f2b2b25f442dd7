// Package assetstest gives tests the assets they need, or skips them.
package assetstest

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/internal/assets"
)

// Find returns the path of an asset. Where it is absent the test is skipped with
// a line that `make test` counts; it fails if LOCKSTEP_REQUIRE_ASSETS is 1.
func Find(t testing.TB, name string) string {
	t.Helper()
	path, err := assets.Find(name)
	if err == nil {
		return path
	}
	if os.Getenv("LOCKSTEP_REQUIRE_ASSETS") == "1" {
		t.Fatalf("LOCKSTEP_REQUIRE_ASSETS=1, but %v", err)
	}
	t.Skipf("not run for want of assets: %v", err)
	return ""
}

// Model is the path of the official model.
func Model(t testing.TB) string {
	t.Helper()
	return Find(t, assets.Model)
}

// RouteNames are the real routes that the project's goldens cover.
var RouteNames = []string{"00000", "00002", "00004", "00006", "04744", "04959"}

// RoutePath is the path of a real route's file.
func RoutePath(t testing.TB, name string) string {
	t.Helper()
	return Find(t, filepath.Join(assets.Routes, name+".csv"))
}

// Route loads a real route.
func Route(t testing.TB, name string, profile lockstep.Profile) *lockstep.Route {
	t.Helper()
	route, err := lockstep.Loader{Profile: profile}.Load(RoutePath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return route
}
