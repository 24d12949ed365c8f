package main

import (
	"bufio"
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rs/zerolog"

	"troupe/cluster/security"
	"troupe/gateway/apikey"
)

var httpsLine = regexp.MustCompile(`https://\S+`)

// TestHTTPSWithAPIKeys checks that a node with API keys and a certificate serves only clients with
// a key, over HTTPS, and reloads its keys.
func TestHTTPSWithAPIKeys(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable() // testscript.Main runs the node under this name
	if err != nil {
		t.Fatal(err)
	}
	ca, _, err := security.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ca.Issue("n1", []string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	first, line, err := apikey.Generate("anna", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	keys := writeFile(t, dir, "keys.yaml", "keys:\n"+line+"\n")
	cmd := exec.Command(self, "up", "--data", filepath.Join(dir, "data"), "--http", "0.0.0.0:0", "--nats-listen",
		"127.0.0.1:0", "--devices", "host:1x256MiB", "--api-keys", keys, "--http-tls-cert",
		filepath.Join(dir, "n1.crt"), "--http-tls-key", filepath.Join(dir, "n1.key"))
	cmd.Args[0] = "troupe"
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = httpsLine.FindString(lines.Text())
	}
	files := security.Files{
		Cert: filepath.Join(dir, "n1.crt"),
		Key:  filepath.Join(dir, "n1.key"),
		CA:   filepath.Join(dir, "ca.crt"),
	}
	identity, err := security.Load(files, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: identity.ClientOf(nil).RootCAs},
			ForceAttemptHTTP2: true,
		},
	}
	status := func(key string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, url+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 {
			t.Errorf("%s, not HTTP/2", res.Proto)
		}
		return res.StatusCode
	}
	if got := status("sk-unknown"); got != http.StatusUnauthorized {
		t.Errorf("unknown key: %d", got)
	}
	if got := status(first); got != http.StatusOK {
		t.Errorf("anna: %d", got)
	}
	second, another, err := apikey.Generate("otto", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "keys.yaml", "keys:\n"+another+"\n")
	if got := status(first); got != http.StatusUnauthorized {
		t.Errorf("anna after her key was removed: %d", got)
	}
	if got := status(second); got != http.StatusOK {
		t.Errorf("otto after his key was added: %d", got)
	}
}
