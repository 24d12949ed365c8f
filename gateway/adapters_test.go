package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/control/catalogue"
	"troupe/gateway"
	"troupe/messages"
	"troupe/testkit"
)

// testAdapters is the catalogue without a store. It rejects paths that contain "missing".
type testAdapters struct {
	catalogue *catalogue.Catalogue
	revision  uint64
}

func (a *testAdapters) add(spec *messages.AdapterSpec) {
	a.revision++
	spec.Revision = a.revision
	a.catalogue.Apply(store.AdapterChange{Model: spec.GetModel(), Name: spec.GetName(), Spec: spec, At: a.revision})
}

func (a *testAdapters) FindAdapter(name string, may func(*messages.AdapterSpec) bool) (*messages.AdapterSpec, error) {
	return a.catalogue.Find(name, may)
}

func (a *testAdapters) Adapters(model string) []*messages.AdapterSpec { return a.catalogue.All(model) }

func (a *testAdapters) RegisterAdapter(
	_ context.Context, req *messages.RegisterAdapterRequest,
) (*messages.AdapterSpec, error) {
	spec := req.GetAdapter()
	if strings.Contains(spec.GetPath(), "missing") {
		return nil, refusedError{
			&messages.Refused{
				Reason: messages.Reason_REASON_INVALID_ARGUMENT,
				Detail: spec.GetPath() + ": no adapter_config.json",
			},
		}
	}
	if spec.Model == "" {
		spec.Model = "kjv"
	}
	a.add(spec)
	return spec, nil
}

func (a *testAdapters) DeleteAdapter(_ context.Context, name string) (*messages.AdapterSpec, error) {
	spec, err := a.catalogue.Find(name, func(*messages.AdapterSpec) bool { return true })
	if spec == nil && err == nil {
		err = control.Refuse(messages.Reason_REASON_NOT_FOUND, name)
	}
	if err == nil {
		a.revision++
		a.catalogue.Apply(store.AdapterChange{Model: spec.GetModel(), Name: spec.GetName(), At: a.revision})
	}
	return spec, err
}

// newAdapterGateway returns a keyed gateway with adapters: psalms of kjv, shout of both models, and
// orphan of a model that is not deployed.
func newAdapterGateway(t *testing.T) *testGateway {
	w := newKeyedGateway(t, &bytes.Buffer{})
	for _, name := range []string{"kjv psalms", "kjv shout", "other shout", "gone orphan"} {
		model, adapter, _ := strings.Cut(name, " ")
		w.adapters.add(&messages.AdapterSpec{
			Model: model, Name: adapter, Path: "/adapters/" + adapter,
			Registered: &timestamppb.Timestamp{Seconds: 1},
		})
	}
	return w
}

// TestAdapterResponsesMatchGolden compares responses about adapters with testdata/wire.
func TestAdapterResponsesMatchGolden(t *testing.T) {
	for name, tc := range map[string]struct{ key, path, body string }{
		"adapter": {anyModel, "/v1/completions", `{"model":"psalms","prompt":"In the beginning","seed":0}`},
		"adapter_full_name": {anyModel, "/v1/chat/completions",
			`{"model":"other:shout","messages":[{"role":"user","content":"Who?"}],"seed":0}`},
		"adapter_ambiguous": {anyModel, "/v1/completions", `{"model":"shout","prompt":"a"}`},
		"adapter_missing":   {anyModel, "/v1/completions", `{"model":"kjv:missing","prompt":"a"}`},
		"adapter_baseless":  {anyModel, "/v1/completions", `{"model":"orphan","prompt":"a"}`},
		"adapter_hidden":    {kjvOnly, "/v1/completions", `{"model":"psalms","prompt":"a"}`},
		"adapter_models":    {anyModel, "/v1/models", ""},
		"adapter_models_of": {kjvOnly, "/v1/models", ""},
		"adapter_describe":  {anyModel, "/v1/models/kjv:shout", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newAdapterGateway(t)
				r := httptest.NewRequest(http.MethodGet, tc.path, nil)
				if tc.body != "" {
					r = httptest.NewRequest(http.MethodPost, tc.path, strings.NewReader(tc.body))
				}
				r.Header.Set("Authorization", "Bearer "+tc.key)
				rec := httptest.NewRecorder()
				w.ServeHTTP(rec, r)
				got := fmt.Sprintf("# %s %s\n%d %s\n\n%s", tc.path, tc.body, rec.Code,
					rec.Header().Get("Content-Type"), normalizeBody(rec.Body.String()))
				compareGolden(t, filepath.Join("testdata", "wire", name+".txt"), got)
			})
		})
	}
}

// TestSequenceCarriesAdapterSpec checks that a sequence carries its adapter's complete
// specification, so that it can continue after the adapter is deleted.
func TestSequenceCarriesAdapterSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("God did.", finishStop))
		w.adapters.add(&messages.AdapterSpec{Model: "kjv", Name: "psalms", Path: "/psalms", Pinned: true})
		for _, model := range []string{"psalms", "kjv:psalms", "kjv"} {
			if rec := w.post("/v1/completions", `{"model":"`+model+`","prompt":"a"}`); rec.Code != http.StatusOK ||
				!strings.Contains(rec.Body.String(), `"model":"`+model+`"`) {
				t.Fatalf("%s: %d %s", model, rec.Code, rec.Body)
			}
		}
		opened, _ := w.sessions()
		for i, call := range opened {
			s := call.Sequence
			if s.GetModel() != "kjv" || (s.GetAdapter() == "psalms") != (i < 2) ||
				(s.GetAdapterSpec().GetPath() == "/psalms") != (i < 2) {
				t.Errorf("%d: %v", i, s)
			}
		}
		if n := w.metric(`troupe_gateway_requests_total{endpoint="completions",model="kjv",status="200"}`); n != "3" {
			t.Errorf("%s requests were counted for the base model, want 3", n)
		}
	})
}

// TestLoadAndUnloadAdapter checks vLLM's endpoints and their errors.
func TestLoadAndUnloadAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, generate("God did.", finishStop))
		const load, unload = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
		for i, tc := range []struct {
			path, body string
			status     int
			say        string
		}{
			{load, `{"lora_name":"a","lora_path":"/a"}`, 200, "Success: LoRA adapter 'a' added successfully."},
			{load, `{"lora_name":"a","lora_path":"/a"}`, 400, "The lora adapter 'a' has already been loaded."},
			{load, `{"lora_name":"a","lora_path":"/b","load_inplace":true}`, 200,
				"Success: LoRA adapter 'a' added successfully."},
			{load, `{"lora_name":"a"}`, 400,
				`"Both 'lora_name' and 'lora_path' must be provided.","type":"InvalidUserInput"`},
			{load, `{"lora_path":"/a"}`, 400, "must be provided"},
			{load, `{"lora_name":"b","lora_path":"/missing"}`, 400, "no adapter_config.json"},
			{load, `{"lora_name":7}`, 400, "lora_name"},
			{load, `nonsense`, 400, "invalid_request_error"},
			{load, ``, 400, "invalid_request_error"},
			{"/v1/completions", `{"model":"a","prompt":"x"}`, 200, "God did."},
			{unload, `{"lora_name":"a"}`, 200, "Success: LoRA adapter 'a' removed successfully."},
			{"/v1/completions", `{"model":"a","prompt":"x"}`, 404, `model \"a\" is not deployed`},
			{unload, `{"lora_name":"a"}`, 404, `"The lora adapter 'a' cannot be found.","type":"NotFoundError"`},
			{unload, `{}`, 400, "'lora_name' needs to be provided"},
		} {
			rec := w.post(tc.path, tc.body)
			if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.say) {
				t.Errorf("%d: %s %s: %d %s", i, tc.path, tc.body, rec.Code, rec.Body)
			}
		}
	})
}

// TestInPlaceLoadKeepsPin checks that an adapter that is loaded in place stays pinned.
func TestInPlaceLoadKeepsPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestGateway(t, noOutput)
		w.adapters.add(&messages.AdapterSpec{Model: "other", Name: "a", Path: "/a", Pinned: true})
		rec := w.post("/v1/load_lora_adapter", `{"lora_name":"other:a","lora_path":"/b","load_inplace":true}`)
		if rec.Code != http.StatusOK {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if all := w.adapters.Adapters(""); len(all) != 1 || !all[0].GetPinned() || all[0].GetPath() != "/b" ||
			all[0].GetRevision() != 2 {
			t.Errorf("%v", all)
		}
	})
}

// TestKeyPermissionsForAdapters checks that a key needs permission for an adapter as for a model,
// and that only an admin's key changes adapters.
func TestKeyPermissionsForAdapters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := openKeys(t, `
- {name: base, key: sk-base-0123456789, models: [kjv]}
- {name: full, key: sk-full-0123456789, models: ["kjv:*"]}
- {name: bare, key: sk-bare-0123456789, models: [psalms, shout]}
- {name: root, key: sk-root-0123456789, admin: true}`)
		w := newTestGateway(t, generate("God did.", finishStop), func(cfg *gateway.Config) { cfg.Keys = keys })
		w.directory.add(
			&messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: "other", Path: testkit.Model()}})
		for _, name := range []string{"kjv psalms", "kjv shout", "other shout"} {
			model, adapter, _ := strings.Cut(name, " ")
			w.adapters.add(&messages.AdapterSpec{Model: model, Name: adapter, Path: "/a"})
		}
		const load = `{"lora_name":"new","lora_path":"/new"}`
		for _, tc := range []struct {
			key, path, body string
			want            int
		}{
			{"base", "/v1/completions", `{"model":"kjv","prompt":"a"}`, 200},
			{"base", "/v1/completions", `{"model":"psalms","prompt":"a"}`, 404},
			{"base", "/v1/completions", `{"model":"kjv:psalms","prompt":"a"}`, 404},
			{"full", "/v1/completions", `{"model":"kjv","prompt":"a"}`, 404},
			{"full", "/v1/completions", `{"model":"psalms","prompt":"a"}`, 200},
			{"full", "/v1/completions", `{"model":"shout","prompt":"a"}`, 200}, // it may use one of that name
			{"full", "/v1/completions", `{"model":"other:shout","prompt":"a"}`, 404},
			{"bare", "/v1/completions", `{"model":"kjv:psalms","prompt":"a"}`, 200},
			{"bare", "/v1/completions", `{"model":"shout","prompt":"a"}`, 400}, // it may use two
			{"bare", "/v1/load_lora_adapter", load, 403},
			{"bare", "/v1/unload_lora_adapter", `{"lora_name":"psalms"}`, 403},
			{"root", "/v1/load_lora_adapter", load, 200},
			{"root", "/v1/unload_lora_adapter", `{"lora_name":"new"}`, 200},
			{"none", "/v1/load_lora_adapter", load, 401},
		} {
			rec := w.post(tc.path, tc.body, "Authorization", "Bearer sk-"+tc.key+"-0123456789")
			if rec.Code != tc.want {
				t.Errorf("%s %s %s: %d, not %d: %s", tc.key, tc.path, tc.body, rec.Code, tc.want, rec.Body)
			}
		}
	})
}
