package main

import (
	"path/filepath"
	"strings"
	"testing"

	"troupe/testkit"
)

// TestConfigErrorsShowPosition checks that a value of the wrong type is reported with line and
// column, the line and a caret, in the terms of the file.
func TestConfigErrorsShowPosition(t *testing.T) {
	deployment := "deployments:\n  - name: kjv\n    path: " + testkit.Model() + "\n"
	whole := "wake_wait must be whole seconds, such as 90 or 1m30s, not "
	adapter := "    path: " + filepath.Join(testkit.Model(), "adapters", "psalms") + "\n"
	for text, want := range map[string][]string{
		deployment + "    replicas: two\n": {
			"[4:15]", "replicas must be a whole number, not text", "replicas: two", "^"},
		deployment + "    replicas: 1.5\n": {"[4:15]", "replicas must be a whole number, not 1.5", "^"},
		deployment + "    replicas: -1\n": {
			"[4:15]", "replicas is -1; it must be a whole number from 0 to 4294967295", "^"},
		deployment + "    replicas: 99999999999\n": {"[4:15]", "it must be a whole number from 0 to 4294967295", "^"},
		deployment + "    replicas: [1]\n":         {"[4:15]", "replicas must be a whole number, not a list", "^"},
		deployment + "    wake_wait: soon\n":       {"[4:16]", whole + "soon", "^"},
		deployment + "    wake_wait: 1.5s\n":       {"[4:16]", whole + "1.5s", "^"},
		deployment + "    wake_wait: -1\n":         {"[4:16]", "wake_wait is -1; it must be a whole number", "^"},
		deployment + "    wake_wait: 1.5\n":        {"[4:16]", whole + "1.5", "^"},
		deployment + "    wake_wait: [1]\n":        {"[4:16]", whole + "a list", "^"},
		deployment + "    wake_wait: 25h\n":        {"[4:16]", "wake_wait", "86400", "^"},
		deployment + "    priority: [a]\n":         {"[4:15]", "priority must be text, not a list", "^"},
		"deployments: kjv\n":                       {"[1:14]", "a list is expected here, not text", "^"},
		"deployments: {name: kjv}\n":               {"[1:14]", "a list is expected here, not a section", "^"},
		"deployments: [kjv]\n":                     {"[1:15]", "a section is expected here, not text", "^"},
		"http: [1]\n":                              {"[1:7]", "http must be text, not a list", "^"},
		"http:\n  a: b\n":                          {"[2:", "http must be text, not a section", "^"},
		"insecure: maybe\n":                        {"[1:11]", "insecure must be true or false, not text", "^"},
		"- a\n":                                    {"[1:1]", "a section is expected here, not a list", "^"},
		deployment + "adapters:\n  - name: psalms\n    model: kjv\n" + adapter + "    pinned: maybe\n": {
			"[8:13]", "pinned must be true or false, not text", "^"},
		deployment + "adapters:\n  - name: psalms\n    model: other\n" + adapter: {
			"[6:12]", `model "other" is not under deployments`, "model: other", "^"},
		"adapters:\n  - name: psalms\n    model: other\n" + adapter: {
			"[3:12]", `model "other" is not under deployments`, "^"},
		deployment + "adapters:\n" + strings.Repeat("  - name: psalms\n    model: kjv\n"+adapter, 2): {
			"[8:11]", "two adapters are kjv:psalms", "^"},
	} {
		path := writeFile(t, t.TempDir(), "node.yaml", text)
		_, err := mergeSources(Options{}, path)
		if err == nil {
			t.Errorf("accepted:\n%s", text)
			continue
		}
		for _, part := range append(want, path) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("no %q in %v", part, err)
			}
		}
		for _, part := range []string{"unmarshal", "Go ", "struct", "uint32", "interface", "[]"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("error with the Go term %q: %v", part, err)
			}
		}
	}
}

// TestAdapterOfClusterModel checks that the model of an adapter may be deployed elsewhere in the
// cluster.
func TestAdapterOfClusterModel(t *testing.T) {
	text := "adapters:\n  - name: psalms\n    model: other\n    path: " +
		filepath.Join(testkit.Model(), "adapters", "psalms") + "\n"
	path := writeFile(t, t.TempDir(), "node.yaml", text)
	for _, flags := range []Options{{Join: "nats://127.0.0.1:4222"}, {NATSRoutes: "nats://127.0.0.1:6222"}} {
		if _, err := mergeSources(flags, path); err != nil {
			t.Error(err)
		}
	}
}
