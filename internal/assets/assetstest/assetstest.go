// Package assetstest gives tests the assets they need, or skips them.
package assetstest

import (
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/internal/assets"
	"lockstep/internal/want"
	"lockstep/routefile"
)

// Find returns the path of an asset. Where it is absent the test is skipped, or
// fails if it is required.
func Find(t testing.TB, name string) string {
	t.Helper()
	path, err := assets.Find(name)
	want.Skip(t, want.Assets.Lacks(err))
	return path
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
	route, err := routefile.Loader{Profile: profile}.Load(RoutePath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return route
}
