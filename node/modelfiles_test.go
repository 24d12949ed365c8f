package node_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"troupe/messages"
	"troupe/modelfile"
	"troupe/node"
	"troupe/testkit"
)

// copyWithFiles returns a folder with links to the files of another one, except the files in
// change: these have the given content, or are missing if the content is nil.
func copyWithFiles(t *testing.T, from string, change map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, replaced := change[e.Name()]; !replaced && !e.IsDir() {
			if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, content := range change {
		if content != nil {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func psalmsDir() string { return filepath.Join(testkit.Model(), "adapters", "psalms") }

// commands passes a path to a node in each possible way, and returns the answers, which must be
// errors.
func commands(t *testing.T, n *node.Node, conn *nats.Conn, path string, adapter bool) map[string]string {
	t.Helper()
	answers := make(map[string]string)
	ask := func(subject string, body any) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		m := request(t, conn, subject, string(b))
		answers[subject] = m.Header.Get("Nats-Service-Error") + string(m.Data)
		if m.Header.Get("Nats-Service-Error") == "" {
			t.Errorf("%s: %s is accepted", subject, path)
		}
	}
	if !adapter {
		ask("troupe.v1.models.deploy", map[string]any{"deployment": map[string]any{"name": "x", "path": path}})
		return answers
	}
	ask("troupe.v1.adapters.register",
		map[string]any{"adapter": map[string]any{"name": "x", "model": "kjv", "path": path}})
	b, err := json.Marshal(map[string]any{"lora_name": "x", "lora_path": path})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+n.HTTPAddr()+"/v1/load_lora_adapter", "application/json", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answers["/v1/load_lora_adapter"] = string(text)
	if resp.StatusCode == http.StatusOK {
		t.Errorf("load_lora_adapter: %s is accepted", path)
	}
	return answers
}

// readAtDeploy lists the files that commands read. The value is true for files of an adapter.
var readAtDeploy = map[string]bool{
	"config.json": false, "generation_config.json": false, "tokenizer.json": false,
	"tokenizer_config.json": false, "chat_template.jinja": false,
	"model.safetensors.index.json": false, "model.safetensors": false, "adapter_config.json": true,
	"adapter_model.safetensors": true,
}

func folderOf(adapter bool) string {
	if adapter {
		return psalmsDir()
	}
	return testkit.Model()
}

// TestHostileFiles checks that files that are not regular or too large are refused at once and
// without much memory.
func TestHostileFiles(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	for name, make := range map[string]func(path string) error{
		"a FIFO":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"/dev/zero":       func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder":        func(path string) error { return os.Mkdir(path, 0o700) },
		"a file of /proc": func(path string) error { return os.Symlink("/proc/self/environ", path) },
		"8 GiB": func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(8 << 30)
		},
	} {
		for _, file := range slices.Sorted(maps.Keys(readAtDeploy)) {
			adapter := readAtDeploy[file]
			dir := copyWithFiles(t, folderOf(adapter), map[string][]byte{file: nil})
			if err := make(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for command, answer := range commands(t, n, conn, dir, adapter) {
				if !strings.Contains(answer, file) {
					t.Errorf("%s as %s: %s answers %s", name, file, command, answer)
				}
			}
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 256<<20 {
				t.Errorf("%s as %s: %d bytes were allocated", name, file, grown)
			}
		}
	}
}

// TestErrorsQuoteNoFileContent puts a secret into each place of a file that can hold text, and into
// files of other kinds.
func TestErrorsQuoteNoFileContent(t *testing.T) {
	const secret = "5ecretMarker"
	n := start(t, nil)
	conn := connect(t, n)
	const passwd = "root:" + secret + ":0:0::/root:/bin/sh\n{{ " + secret + "\n"
	contents := map[string][]string{
		"config.json": {
			passwd,
			`"` + secret + `"`,
			`{"architectures":["` + secret + `"]}`,
			`{"architectures":"` + secret + `"}`,
			`{"hidden_size":"` + secret + `"}`,
			withJSONField(t, "config.json", "hidden_act", secret),
			withJSONField(t, "config.json", "eos_token_id", secret),
			withJSONField(t, "config.json", "eos_token_id", []string{secret}),
			withJSONField(t, "config.json", "rope_scaling", map[string]string{"type": secret}),
			withJSONField(t, "config.json", "quantization_config", secret),
		},
		"generation_config.json": {}, // only its numbers are read; other faults are ignored
		"tokenizer.json": {
			passwd,
			`"` + secret + `"`,
			`{"model":{"vocab":{"` + secret + `":"` + secret + `"}}}`,
			`{"model":{"vocab":"` + secret + `"}}`,
			`{"model":{"type":"` + secret + `"}}`,
			`{"model":{"vocab":{"` + secret + `":0,"a":0}}}`,
			`{"model":{"vocab":{"` + secret + `":-1}}}`,
			`{"model":{"vocab":{"a":0},"merges":["` + secret + `"]}}`,
			`{"model":{"vocab":{"a":0},"merges":["a ` + secret + `"]}}`,
			`{"model":{"vocab":{"a":0},"unk_token":"` + secret + `"}}`,
			withJSONField(t, "tokenizer.json", "added_tokens", []any{map[string]any{"id": 5000, "content": secret}}),
			withJSONField(t, "tokenizer.json", "added_tokens", secret),
			withJSONField(t, "tokenizer.json", "normalizer", map[string]any{"type": secret}),
			withJSONField(t, "tokenizer.json", "pre_tokenizer", map[string]any{"type": secret}),
			withJSONField(t, "tokenizer.json", "pre_tokenizer",
				map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]string{"Regex": secret}}),
			withJSONField(t, "tokenizer.json", "post_processor", map[string]any{"type": secret}),
			withJSONField(t, "tokenizer.json", "decoder", map[string]any{"type": secret}),
			withJSONField(t, "tokenizer.json", "post_processor", map[string]any{
				"type":   "TemplateProcessing",
				"single": []any{map[string]any{"SpecialToken": map[string]string{"id": secret}}},
			}),
		},
		"tokenizer_config.json": {
			passwd,
			`{"chat_template":{"` + secret + `":1}}`,
			`{"chat_template":[{"name":"` + secret + `","template":""}]}`,
			`{"` + secret,
		},
		"chat_template.jinja": {
			"{{ " + secret,
			"{% " + secret + " %}",
			"{% if " + secret,
			"{{ x | " + secret + " }}",
			"{{ x is " + secret + " }}",
			"{{ x." + secret + "() }}",
			"{{ '" + secret,
			"{% for " + secret + " %}",
			"{# " + secret,
			"{{ 1" + secret + " + 2 3 }}",
			"{{ " + secret + ".x.y }}",
			"{% set x = '" + secret + "' %}{{ x + [] }}{{ x | tojson(" + secret + "=1) }}",
			"{% raw %}" + secret,
			"{% include '" + secret + "' %}",
			"{{ strftime_now('%Q" + secret + "') }}",
		},
		"model.safetensors.index.json": {
			passwd,
			`{"weight_map":{"` + secret + `":"../` + secret + `"}}`,
			`{"weight_map":{"` + secret + `":"` + secret + `"}}`,
			`{"weight_map":"` + secret + `"}`,
		},
		"model.safetensors": {
			passwd,
			header(secret),
			header(`{"` + secret + `":1}`),
			header(`{"` + secret + `":{"dtype":"` + secret + `","shape":[],"data_offsets":[0,0]}}`),
			header(`{"a":{"dtype":"F32","shape":["` + secret + `"]}}`),
			header(`{"` + secret + `":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`),
			header(`{"__metadata__":{"` + secret + `":["` + secret + `"]}}`),
			header(`{"a":{"dtype":"F32","shape":"` + secret + `"}}`),
			header(`{"a: ` + secret + `":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}`),
			withTensor(t, "model.safetensors", "a: "+secret),
		},
		"adapter_config.json": {
			passwd,
			`{"peft_type":"` + secret + `"}`,
			withJSONField(t, "adapter_config.json", "bias", secret),
			withJSONField(t, "adapter_config.json", "target_modules", []string{secret}),
			withJSONField(t, "adapter_config.json", "target_modules", "("+secret),
			withJSONField(t, "adapter_config.json", "layers_to_transform", secret),
			withJSONField(t, "adapter_config.json", "layers_pattern", secret),
			withJSONField(t, "adapter_config.json", "init_lora_weights", "pissa"+secret),
			withJSONField(t, "adapter_config.json", "r", secret),
			withJSONField(t, "adapter_config.json", "init_lora_weights", secret),
			withJSONField(t, "adapter_config.json", "lora_alpha", secret),
			withJSONField(t, "adapter_config.json", "a: "+secret, secret),
			withJSONField(t, "adapter_config.json", "another", secret),
		},
		"adapter_model.safetensors": {
			passwd,
			header(secret),
			header(`{"` + secret + `":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`),
			withTensor(t, "adapter_model.safetensors", "a: "+secret),
		},
	}
	for file, adapter := range readAtDeploy {
		for _, content := range contents[file] {
			if content == "" {
				t.Fatal("no content")
			}
			for command, answer := range commands(t, n, conn,
				copyWithFiles(t, folderOf(adapter), map[string][]byte{file: []byte(content)}), adapter) {
				if strings.Contains(answer, secret) || strings.Contains(answer, "'r'") ||
					strings.Contains(answer, "root:") {
					t.Errorf("%s with %q: %s answers %s", file, content, command, answer)
				}
			}
		}
	}
	for _, name := range []string{secret, "of/" + secret} { // the first of the commands compares the base model
		dir := copyWithFiles(t, psalmsDir(), map[string][]byte{
			"adapter_config.json": []byte(withJSONField(t, "adapter_config.json", "base_model_name_or_path", name)),
		})
		b, _ := json.Marshal(map[string]any{ // never fails
			"adapter": map[string]any{"name": "x", "model": "kjv", "path": dir},
		})
		if m := request(t, conn, "troupe.v1.adapters.register", string(b)); m.Header.Get("Nats-Service-Error") == "" ||
			strings.Contains(m.Header.Get("Nats-Service-Error")+string(m.Data), secret) {
			t.Errorf("%v %s", m.Header, m.Data)
		}
	}
}

// withJSONField returns a file of the shipped model or adapter with another value of a field.
func withJSONField(t *testing.T, file, field string, value any) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folderOf(readAtDeploy[file]), file))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	all[field] = value
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// withTensor returns a file of the shipped model or adapter with an additional empty tensor.
func withTensor(t *testing.T, file, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folderOf(readAtDeploy[file]), file))
	if err != nil {
		t.Fatal(err)
	}
	end := 8 + binary.LittleEndian.Uint64(b)
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(b[8:end], &all); err != nil {
		t.Fatal(err)
	}
	all[name] = json.RawMessage(`{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))) + string(text) + string(b[end:])
}

// TestUnknownTensorsAreNamed checks that the error for an unknown tensor names it if its name is
// plain.
func TestUnknownTensorsAreNamed(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	for file, tc := range map[string]struct{ content, want string }{
		"model.safetensors": {withTensor(t, "model.safetensors", "vision.weight_1"),
			"tensor vision.weight_1 is not part of"},
		"adapter_model.safetensors": {withTensor(t, "adapter_model.safetensors", "vision.weight_1"),
			"tensor vision.weight_1 is not selected by"},
		"adapter_config.json": {withJSONField(t, "adapter_config.json", "use_other", true),
			"key use_other is unknown"},
	} {
		adapter := readAtDeploy[file]
		for command, answer := range commands(t, n, conn,
			copyWithFiles(t, folderOf(adapter), map[string][]byte{file: []byte(tc.content)}), adapter) {
			if !strings.Contains(answer, tc.want) {
				t.Errorf("%s: %s answers %s, want %q", file, command, answer, tc.want)
			}
		}
	}
}

// header returns a safetensors file that consists of a header.
func header(text string) string {
	n := len(text)
	return string([]byte{byte(n), byte(n >> 8), 0, 0, 0, 0, 0, 0}) + text
}

// TestDeployTriesTemplate checks that a failing template is refused with its file and line, and
// that one that raises an error for a system message is accepted.
func TestDeployTriesTemplate(t *testing.T) {
	n := start(t, nil)
	conn := connect(t, n)
	for template, want := range map[string]string{
		"{% set ns = namespace(a=1) %}\n{% set ns.a = [ns] %}{{ ns }}": "chat_template.jinja: " +
			"trial rendering failed: chat template: line 2: a value is more than 128 levels deep, or contains itself",
		"{{ 'x' * 10000000000 }}":                                      "a value is longer than",
		"{% for m in messages %}{{ m.content.nothing() }}{% endfor %}": "not callable",
		"{% if %}":                       "chat_template.jinja: chat template: line 1",
		"{{ messages | urlize }}":        "unsupported filter urlize",
		"{{ raise_exception('never') }}": "never",
		"{% if messages[2].role == 'assistant' %}{{ messages[7].role }}{% endif %}": "line 1",
	} {
		dir := copyWithFiles(t, testkit.Model(), map[string][]byte{"chat_template.jinja": []byte(template)})
		for _, answer := range commands(t, n, conn, dir, false) {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: got %s, want %q", template, answer, want)
			}
		}
	}
	for i, change := range []map[string][]byte{
		{"chat_template.jinja": []byte("{% if messages[0].role == 'system' %}" +
			"{{ raise_exception('no system message') }}" +
			"{% endif %}{{ messages[0].content }}")},
		{"tokenizer_config.json": []byte("{}")},
	} {
		dir := copyWithFiles(t, testkit.Model(), change)
		m := request(t, conn, "troupe.v1.models.deploy",
			fmt.Sprintf(`{"deployment":{"name":"fine%d","path":%q}}`, i, dir))
		if m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%d: %v %s", i, m.Header, m.Data)
		}
	}
}

// TestModelRoots checks that a node with roots reads models and adapters only from below them, even
// through links.
func TestModelRoots(t *testing.T) {
	base := t.TempDir()
	root, outside := filepath.Join(base, "models"), filepath.Join(base, "outside")
	model, adapter := cached(t, filepath.Join(root, "hub"), testkit.Model()), cached(t,
		filepath.Join(root, "adapters"), psalmsDir())
	cached(t, outside, testkit.Model())
	cached(t, outside, psalmsDir())
	roots, err := modelfile.NewRoots(root)
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, func(c *node.Config) {
		c.Roots = roots
		c.Deployments = []*messages.DeploymentSpec{{Name: "kjv", Path: model}}
	})
	conn := connect(t, n)
	for i, link := range []string{"model", "adapter"} {
		from := []string{"kjv-2m", "psalms"}[i]
		if err := os.Symlink(filepath.Join(outside, "snapshots", from), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	escaping := func(from, name string) string {
		dir := cached(t, filepath.Join(root, "escaping", name), from)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, "snapshots", filepath.Base(from), name),
			filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for path, isAdapter := range map[string]bool{
		filepath.Join(outside, "snapshots", "kjv-2m"): false, filepath.Join(root, "model"): false,
		filepath.Join(root, "..", "outside", "snapshots", "kjv-2m"): false,
		escaping(testkit.Model(), "tokenizer.json"):                 false,
		escaping(testkit.Model(), "model.safetensors"):              false,
		filepath.Join(outside, "snapshots", "psalms"):               true, filepath.Join(root, "adapter"): true,
		escaping(psalmsDir(), "adapter_config.json"): true,
		escaping(psalmsDir(), "golden_greedy.jsonl"): true,
		"/etc": false, "/nowhere": true, "/root/x": false, root + "2": false,
	} {
		for command, answer := range commands(t, n, conn, path, isAdapter) {
			if !strings.Contains(answer, modelfile.ErrOutside.Error()) {
				t.Errorf("%s: %s answers %s", path, command, answer)
			}
		}
	}
	m := request(t, conn, "troupe.v1.adapters.register",
		fmt.Sprintf(`{"adapter":{"name":"psalms","model":"kjv","path":%q},"any_base":true}`, adapter))
	if m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%v %s", m.Header, m.Data)
	}
	waitFor(t, "the model to serve", func() bool {
		return strings.Contains(string(request(t, conn, "troupe.v1.models.get", `{"name":"kjv"}`).Data),
			`"state":"DEPLOYMENT_STATE_READY"`)
	})
	other := escaping(testkit.Model(), "MODEL_CARD.md") // a file that no node reads
	if _, err := node.Start(t.Context(), node.Config{
		Name: "other", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0",
		Version: "0.0.0", Roots: roots,
		Deployments: []*messages.DeploymentSpec{{Name: "kjv", Path: other}},
	}); err == nil || !strings.Contains(err.Error(), modelfile.ErrOutside.Error()) {
		t.Errorf("a configuration with a model outside: %v", err)
	}
}

// cached copies a folder into a Hugging Face cache, where snapshots/<name> has links to
// ../../blobs/<file>.
func cached(t *testing.T, dir, from string) string {
	t.Helper()
	snapshot, blobs := filepath.Join(dir, "snapshots", filepath.Base(from)), filepath.Join(dir, "blobs")
	for _, d := range []string{snapshot, blobs} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(blobs, filepath.Base(from)+e.Name()), b, 0o600)
		}
		if err == nil {
			err = os.Symlink(filepath.Join("..", "..", "blobs", filepath.Base(from)+e.Name()),
				filepath.Join(snapshot, e.Name()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return snapshot
}
