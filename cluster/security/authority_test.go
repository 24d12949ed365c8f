package security_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/cluster/security"
)

// TestAuthority: the CA is created once, keys are readable by their owner only, and a renewed
// certificate keeps its hosts.
func TestAuthority(t *testing.T) {
	dir := authority(t, "a")
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	root, before := read("ca.crt")+read("ca.key"), read("a.crt")
	ca, made, err := security.OpenAuthority(dir)
	if err != nil || made {
		t.Fatal(made, err)
	}
	if _, err := ca.Issue("b", []string{"10.0.0.7", "b.example.com"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Issue("a", nil); err != nil {
		t.Fatal(err)
	}
	if read("ca.crt")+read("ca.key") != root || read("a.crt") == before {
		t.Error("the CA changed, or the certificate of a did not")
	}
	if _, err := ca.Issue("ca", nil); err == nil {
		t.Error("a node may be named ca")
	}
	for _, name := range []string{"ca.key", "a.key", "b.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	var shown []string
	all, err := security.Show(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		shown = append(shown, c.Subject.CommonName+"="+strings.Join(security.Hosts(c), ","))
	}
	if got := strings.Join(shown, " "); got != "Troupe CA= a=a,localhost,127.0.0.1 b=b.example.com,10.0.0.7" {
		t.Error(got)
	}
	load(t, dir, "b")

	if _, err := ca.IssueClient("b"); err == nil || !strings.Contains(err.Error(), "node certificate") {
		t.Errorf("client certificate for a node: %v", err)
	}
	for range 2 { // issued, then renewed
		if _, err := ca.IssueClient("guest"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ca.Issue("guest", nil); err == nil || !strings.Contains(err.Error(), "client certificate") {
		t.Errorf("node certificate for a client: %v", err)
	}
}

// TestHalfAuthority: an incomplete CA is never completed by overwriting its files.
func TestHalfAuthority(t *testing.T) {
	for _, lost := range []string{"ca.key", "ca.crt"} {
		dir := authority(t)
		if err := os.Remove(filepath.Join(dir, lost)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := security.OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "no "+lost) {
			t.Errorf("without %s: %v", lost, err)
		}
	}
	if _, err := security.Show(t.TempDir()); err == nil {
		t.Error("Show succeeds on an empty folder")
	}
}

// TestNkey: a seed is written once, readable by its owner only, and logs in as the public key.
func TestNkey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n1.nk")
	public, err := security.NewNkey(file)
	if err != nil || !strings.HasPrefix(public, "U") {
		t.Fatal(public, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if _, err := (security.Login{Nkey: file}).Options(); err != nil {
		t.Error(err)
	}
	if _, err := security.NewNkey(file); err == nil {
		t.Error("a seed was overwritten")
	}
}
