package apikey_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"troupe/gateway/apikey"
)

const (
	alice = "alice-secret-0001"
	bob   = "bob-secret-000002"
)

func writeKeyFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	replaceFile(t, path, content)
	return path
}

func replaceFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestFindKey(t *testing.T) {
	keys, err := apikey.Open(writeKeyFile(t, fmt.Sprintf(`
keys:
  - name: alice
    key: %s
  - name: bob
    sha256: %x
    models: ["kjv-*", llama]
`, alice, sha256.Sum256([]byte(bob)))), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		secret, name, may, mayNot string
	}{
		{alice, "alice", "anything", ""},
		{bob, "bob", "kjv-2m", "kjv"},
		{bob, "bob", "llama", "llama-2"},
		{"", "", "", "anything"},
		{"alice", "", "", "anything"},
		{alice + "x", "", "", "anything"},
		{alice[:len(alice)-1], "", "", "anything"},
	} {
		k, ok := keys.Find(tc.secret)
		if ok != (tc.name != "") || k.Name != tc.name {
			t.Errorf("%q: %q, %t", tc.secret, k.Name, ok)
		}
		if tc.may != "" && !k.Allows(tc.may) || ok && tc.mayNot != "" && k.Allows(tc.mayNot) {
			t.Errorf("%s: may use %q: %t; %q: %t", k.Name, tc.may, k.Allows(tc.may), tc.mayNot, k.Allows(tc.mayNot))
		}
	}
}

// TestKeyFileReload checks that added keys are valid and removed ones invalid from the next request
// on, the last one included, and that an invalid file changes nothing.
func TestKeyFileReload(t *testing.T) {
	log := &bytes.Buffer{}
	path := writeKeyFile(t, "keys: [{name: alice, key: "+alice+"}]")
	keys, err := apikey.Open(path, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	known := func() string {
		_, a := keys.Find(alice)
		_, b := keys.Find(bob)
		return fmt.Sprint(a, b)
	}
	replaceFile(t, path, "keys: [{name: bob, key: "+bob+"}]")
	if got := known(); got != "false true" {
		t.Errorf("after the change: %s", got)
	}
	replaceFile(t, path, "keys: [{name: bob, kye: "+alice+"}]")
	if got := known(); got != "false true" {
		t.Errorf("after an invalid file: %s", got)
	}
	replaceFile(t, path, "")
	if got := known(); got != "false true" {
		t.Errorf("after a truncated file: %s", got)
	}
	replaceFile(t, path, "keys: []")
	if got := known(); got != "false false" {
		t.Errorf("after the last key was removed: %s", got)
	}
	if n := strings.Count(log.String(), "changed API keys rejected"); n != 2 {
		t.Errorf("reported %d times:\n%s", n, log)
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("a key is in the log:\n%s", log)
	}
}

func TestInvalidKeyFile(t *testing.T) {
	empty := sha256.Sum256(nil)
	for content, want := range map[string]string{
		"keys: [{name: shared, key: " + alice + "}]": "a key named shared without a tenant would share cached prefixes",
		"":             "it has no keys",
		"keys: []":     "it has no keys",
		"keys: [alice": "syntax error at line 1, column 7",
		"keys:\n  - {name: alice, sk-secret-key-as-field: 1}":                  "syntax error at line 2, column 19",
		"keys: [{key: " + alice + "}]":                                         `key 1: name is missing`,
		"keys: [{name: a}]":                                                    "either key or sha256",
		"keys: [{name: a, key: " + alice + ", sha256: ab}]":                    "either key or sha256",
		"keys: [{name: a, key: secret}]":                                       "key has 6 characters",
		"keys: [{name: a, sha256: ab}]":                                        "64 hexadecimal digits",
		"keys: [{name: a, key: " + alice + ", models: []}]":                    "models is empty",
		"keys: [{name: a, key: " + alice + ", models: ['[']}]":                 "is not a valid pattern",
		"keys: [{name: a, key: " + alice + "}, {name: a, key: " + bob + "}]":   "keys 1 and 2 have the same name",
		"keys: [{name: a, key: " + alice + "}, {name: b, key: " + alice + "}]": `keys 1 and 2 are the same`,
		"keys: [{name: a, key: " + alice + ", model: x}]":                      "syntax error at line 1",
		fmt.Sprintf("keys: [{name: a, sha256: %x}]", empty):                    "the hash of an empty key",
		fmt.Sprintf("keys: [{name: a, sha256: %x}]\nother: 1", empty):          "syntax error at line 2, column 1",
		fmt.Sprintf("keys: [{name: a, sha256: %x}]\nkeys: [{}]", empty):        "syntax error at line 2, column 1",
		fmt.Sprintf("keys: {name: a, sha256: %x, models: all}",
			sha256.Sum256([]byte{1})): "syntax error at line 1",
	} {
		_, err := apikey.Open(writeKeyFile(t, content), zerolog.Nop())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want: %s", content, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("a key is in the error: %v", err)
		}
	}
}

// TestGenerate checks that the generated entry is valid in a key file and matches the key.
func TestGenerate(t *testing.T) {
	seen := map[string]bool{}
	for _, models := range [][]string{nil, {"kjv-*"}, {"a", `b"c`}} {
		secret, line, err := apikey.Generate("alice: \"x\"", models, models == nil)
		if err != nil || seen[secret] || strings.Contains(line, secret) {
			t.Fatalf("%q %q %v", secret, line, err)
		}
		seen[secret] = true
		keys, err := apikey.Open(writeKeyFile(t, "keys:\n"+line), zerolog.Nop())
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		k, ok := keys.Find(secret)
		if !ok || k.Name != `alice: "x"` || k.Admin != (models == nil) || k.Allows("kjv-2m") != (len(models) < 2) ||
			k.Allows(`b"c`) != (len(models) != 1) {
			t.Errorf("%+v of %s", k, line)
		}
	}
	if _, _, err := apikey.Generate("", nil, false); err == nil {
		t.Error("Generate accepts an empty name")
	}
}

// FuzzKeyFile checks that a file is either rejected without quoting it, or accepted without making
// the empty key valid.
func FuzzKeyFile(f *testing.F) {
	f.Add("keys: [{name: alice, key: SECRET-0123456789}]")
	f.Add("keys:\n  - name: bob\n" +
		"    sha256: 0000000000000000000000000000000000000000000000000000000000000000\n    models: ['*']\n")
	f.Add("keys: [{SECRET-0123456789: 1}]")
	f.Add("keys: {SECRET-0123456789")
	f.Add("keys: [{name: a, key: &x SECRET-0123456789}, {name: b, key: *x}]")
	f.Fuzz(func(t *testing.T, content string) {
		keys, err := apikey.Open(writeKeyFile(t, content), zerolog.Nop())
		if err != nil {
			if strings.Contains(err.Error(), "SECRET-0123456789") {
				t.Errorf("the error shows a key: %v", err)
			}
			return
		}
		if k, ok := keys.Find(""); ok {
			t.Errorf("the empty key is accepted as %q", k.Name)
		}
	})
}

// TestModelPatterns checks that wildcards do not match across the colon, and that an adapter is
// matched by its full name.
func TestModelPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string // a model, or "model:adapter"
		want          bool
	}{
		{"kjv-*", "kjv-2m", true},
		{"kjv-*", "kjv-2m:psalms", false},
		{"kjv-*:*", "kjv-2m:psalms", true},
		{"kjv-*:*", "kjv-2m", false},
		{"kjv-*:ps*", "kjv-2m:psalms", true},
		{"kjv-*:ps*", "kjv-2m:proverbs", false},
		{"kjv-2m:psalms", "kjv-2m:psalms", true},
		{"kjv-2m:psalms", "other:psalms", false},
		{"*", "kjv-2m", true},
		{"*", "kjv-2m:psalms", false},
		{"*:*", "kjv-2m:psalms", true},
		{"*:*", "kjv-2m", false},
		{"*:psalms", "other:psalms", true},
		{"psalms", "kjv-2m:psalms", true}, // exact short name
		{"psalm?", "kjv-2m:psalms", false},
		{"psalms*", "kjv-2m:psalms", false},
		{"[p]salms", "kjv-2m:psalms", false},
		{"kjv-2m?psalms", "kjv-2m:psalms", false},
		{"kjv-2m[^a]psalms", "kjv-2m:psalms", false},
		{"kjv-2m", "kjv-2m:psalms", false},
		{"kjv-2m:", "kjv-2m:psalms", false},
		{":psalms", "kjv-2m:psalms", false},
	} {
		keys, err := apikey.Open(
			writeKeyFile(t, fmt.Sprintf("keys: [{name: a, key: %s, models: [%q]}]", alice, tc.pattern)), zerolog.Nop())
		if err != nil {
			t.Fatalf("%s: %v", tc.pattern, err)
		}
		k, _ := keys.Find(alice)
		got := k.Allows(tc.name)
		if model, adapter, ok := strings.Cut(tc.name, ":"); ok {
			got = k.AllowsAdapter(model, adapter)
		}
		if got != tc.want {
			t.Errorf("%s opens %s: %t", tc.pattern, tc.name, got)
		}
	}
	all, err := apikey.Open(writeKeyFile(t, "keys: [{name: a, key: "+alice+"}]"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if k, _ := all.Find(alice); !k.Allows("kjv-2m") || !k.AllowsAdapter("kjv-2m", "psalms") {
		t.Error("a key without models does not allow all models")
	}
	path := writeKeyFile(t, "keys: [{name: a, key: "+alice+", models: ['kjv[a:b]']}]")
	if _, err := apikey.Open(path, zerolog.Nop()); err == nil {
		t.Error("a colon in brackets is accepted")
	}
}
