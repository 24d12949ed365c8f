package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCommand struct{}

func (versionCommand) Help() string {
	return `Prints version, commit, Go version and platform. The commit is unknown unless the binary was built from a
git checkout ("make build").

Example:

  troupe version`
}

// Run prints version, commit, Go version and platform.
func (versionCommand) Run(c console) error {
	_, err := fmt.Fprintf(c.out, "troupe %s\ncommit %s\n%s %s/%s\n", version(), commit(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
	return err
}

// commit returns the commit of this build, and whether it has changes.
func commit() string {
	commit, changed := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with changes"
			}
		}
	}
	return commit + changed
}

// build returns version and commit.
func build() string { return version() + " (commit " + commit() + ")" }

// version returns the module's semantic version, which Go derives from the tag or commit.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version[1:]
	}
	return "0.0.0-devel"
}
