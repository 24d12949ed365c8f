package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"troupe/actors/kvblock"
	"troupe/core/hbm"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/core/units"
)

// Titles of the option groups in the help of "troupe up".
const (
	groupShutdown = "Shutdown"
	groupGPUs     = "GPUs"
	groupKVTiers  = "KV tiers (memory for KV blocks below the GPUs)"
	groupModels   = "Models and adapters"
	groupCluster  = "Cluster"
	groupTLS      = "Certificates between nodes"
	groupNATS     = "NATS credentials"
	groupHTTP     = "HTTP security and limits"
)

// optionDoc documents an option: its group in the help, the placeholder of its value, and its help
// text, in which ${...} are values of helpVars.
type optionDoc struct{ group, placeholder, help string }

// optionDocs are the docs of Options by yaml key. The flag is the key with dashes (--kv-dram for
// kv_dram), the environment variable the key in capitals (TROUPE_KV_DRAM).
var optionDocs = map[string]optionDoc{
	"name": {"", "NAME", "Name of this node (default: the host name)."},
	"data": {"", "DIR", "Folder for state that survives restarts (default: $$XDG_DATA_HOME/troupe/NAME)."},
	"http": {"", "HOST:PORT", "Listen address of the OpenAI API. Port 0 picks any port " +
		"(default: ${http}, or the next free port)."},
	"log_level": {"", "LEVEL", "debug, info, warn or error (default: info)."},
	"try": {"", "PROMPT", "Stream a completion of PROMPT to the terminal once the first deployment serves: " +
		"\"In the beginning\"."},

	"drain_timeout": {groupShutdown, "DURATION", "On shutdown, how long running requests may take to finish: " +
		"30s, 5m (default: ${drain})."},
	"drain_grace": {groupShutdown, "DURATION",
		"The first part of --drain-timeout, in which new requests are still " +
			"served while /ready returns 503. Make it longer than load balancers need to notice " +
			"(default: ${grace}, at most half of --drain-timeout)."},

	"devices": {groupGPUs, "auto|host:COUNTxSIZE[xTHREADS]",
		"auto: all GPUs of this machine, or one software GPU with half of " +
			"its memory if it has none. host:2x512MiB: two software GPUs of 512 MiB; " +
			"host:2x512MiBx1: that compute with one thread each, and not with one for each core (default: auto)."},
	"simulated_devices": {groupGPUs, "COUNT[xGROUP]xPROFILE",
		"Simulated devices, after the others: 16xh200; 8x2xh200 for 8 groups of 2 that compute together; or " +
			"4x/path/profile.yaml with a profile of troupe calibrate. " +
			"Their memory is only counted, and only deployments with engine: {kind: simulated} run on them: " +
			"nothing is computed, and steps take as long as the profile says (default: none)."},
	"kv_reserve": {groupGPUs, "SHARE[,GPU=SHARE...]",
		"Share of each GPU's memory reserved for KV blocks and divided " +
			"among its replicas, from 0 to below 1: 0.3, or 0.3,gpu-1=0.5 (default: ${kvreserve})."},
	"cublas": {groupGPUs, "auto|off|FILE",
		"GEMM backend. auto: libcublas.so if this machine has it; off: the built-in " +
			"kernels; FILE: the library at that path. With each of them, tokens of a replica do not depend on the " +
			"batch (default: auto)."},

	"step_timeout": {groupGPUs, "DURATION",
		"Shortest time after which a step counts as hung: routers avoid its replica, and its requests continue " +
			"elsewhere. The limit is 20 times the time that such steps took before, if that is longer; 0 turns " +
			"it off (default: ${steptimeout})."},
	"hung_timeout": {groupGPUs, "DURATION",
		"How long a step may hang before its replica is replaced and its GPU tested (default: ${hungtimeout})."},
	"canary_interval": {groupGPUs, "DURATION",
		"How often an idle replica computes a token to check itself; 0 turns it off (default: ${canary})."},

	"kv_dram": {groupKVTiers, "SIZE",
		"Host memory for KV blocks evicted from GPUs: 8GiB; 0 disables the tier. Models of " +
			"all block sizes share it. A block may take an eighth of it, at most 65MiB " +
			"(default: an eighth of the free memory, at most ${kvdram})."},
	"kv_nvme": {groupKVTiers, "SIZE",
		"Disk space for KV blocks: 200GiB; 0 disables the tier. Blocks persist across " +
			"restarts (default: 0)."},
	"kv_nvme_path": {groupKVTiers, "FILE",
		"File of the NVMe tier, on a local disk (default: kv in the data folder)."},
	"kv_remote": {groupKVTiers, "SIZE",
		"Limit on KV blocks in flight from other nodes: 1GiB; 0 disables fetching from " +
			"and sending to other nodes (default: ${kvremote})."},
	"kv_watermark": {groupKVTiers, "SHARE",
		"How full GPU memory and tiers may be before blocks are offloaded or demoted " +
			"ahead of need, above 0 and at most 1 (default: ${kvwatermark})."},
	"kv_restore": {groupKVTiers, "auto|always",
		"When blocks are restored from lower tiers and other nodes. auto: if that is faster than " +
			"recomputing them; always: whenever they are found (default: ${kvrestore})."},
	"kv_policy": {groupKVTiers, "POLICY", "Eviction policy: ${kvpolicies} (default: ${kvpolicy})."},

	"model_roots": {groupModels, "DIR,...",
		"Only load models and adapters from these folders, after links are resolved: " +
			"/models,/adapters (default: any folder)."},
	"weights_dram": {groupModels, "SIZE",
		"Host memory for weights of models that are parked or were loaded, and for adapters, so that they are " +
			"loaded again without their files: 64GiB; 0 disables the cache. It is page-locked where the devices are " +
			"GPUs, and taken as it is needed (default: a quarter of the free memory)."},
	"weights_images": {groupModels, "SIZE",
		"Disk space in the data folder for images of weights, which are written after a load, from host memory or " +
			"from the device. A load from an image is faster than one from the model's files, and needs none of " +
			"them: 200GiB (default: 0, no images). They survive restarts."},
	"adapter_dram": {groupModels, "SIZE",
		"Has no effect any longer: the replicas of a node share the copies of adapters in the memory of " +
			"--weights-dram."},

	"join": {groupCluster, "URL,...", "Join the cluster at these NATS servers, and run no NATS server here: " +
		"nats://10.0.0.7:4222."},
	"nats_listen": {groupCluster, "HOST:PORT",
		"Listen address of this node's NATS server (default: ${nats}; a cluster " +
			"that already serves there is joined)."},
	"nats_routes": {groupCluster, "URL,...", "Form a NATS cluster with the NATS servers of other nodes, at their " +
		"--nats-cluster-listen: nats://10.0.0.8:6222."},
	"nats_cluster_listen": {groupCluster, "HOST:PORT", "Listen address for the NATS servers of other nodes " +
		"(default with --nats-routes: port ${natscluster})."},
	"cluster_listen": {groupCluster, "HOST:PORT", "Listen address for messages between the actors of nodes " +
		"(default: any port on the interface towards the servers of --join, or loopback)."},
	"data_listen": {groupCluster, "HOST:PORT",
		"Listen address for KV blocks from other nodes (default: any port, on the " +
			"same interface)."},
	"advertise": {groupCluster, "HOST",
		"Host name or address at which other nodes reach this node (default: the host of " +
			"its listen addresses)."},

	"tls_cert": {groupTLS, "FILE",
		"Certificate of this node for other nodes and NATS; \"troupe certs\" creates it."},
	"tls_key": {groupTLS, "FILE", "Private key of --tls-cert."},
	"tls_ca":  {groupTLS, "FILE", "CA certificate that must have issued the certificates of other nodes."},
	"tls_revoked": {groupTLS, "FILE",
		"Fingerprints of revoked certificates, one per line; reloaded when the file " +
			"changes. \"troupe certs --revoke\" writes it."},

	"nats_creds": {groupNATS, "FILE", "NATS credentials of this node: a JWT and its seed, as nsc creates them."},
	"nats_nkey": {groupNATS, "FILE",
		"nkey seed of this node, instead of --nats-creds; \"troupe keys nkey\" creates it."},
	"nats_users": {groupNATS, "FILE",
		"Users of this node's NATS server: the authorization or accounts section of a " +
			"nats-server configuration."},
	"nats_inbox_prefixes": {groupNATS, "PREFIX,...",
		"Inbox prefixes of NATS users in addition to _INBOX and those in " +
			"--nats-users: _INBOX_anna. Shared with the other nodes. Requests with another reply subject are dropped."},
	"nats_trust_accounts": {groupNATS, "",
		"Identify NATS clients by the account that the server reports for service " +
			"imports. Use it only if clients have their own accounts."},

	"api_keys": {groupHTTP, "FILE",
		"API keys, and the models that each may use; \"troupe keys new\" creates one."},
	"http_tls_cert": {groupHTTP, "FILE", "Serve HTTPS with this certificate."},
	"http_tls_key":  {groupHTTP, "FILE", "Private key of --http-tls-cert."},
	"http_behind_tls": {groupHTTP, "",
		"Accept API keys over plain HTTP because a proxy in front of --http terminates " +
			"TLS."},
	"http_connections": {groupHTTP, "N",
		"Maximum number of open HTTP connections; above it only probes are answered " +
			"(default: half of the file descriptor limit, at most 8192)."},
	"http_connections_per_address": {groupHTTP, "N", "Maximum number of open HTTP connections per client address " +
		"(default: a quarter of --http-connections)."},
	"http_body_memory": {groupHTTP, "SIZE",
		"Memory for the bodies of all requests together: 1GiB. A request that does " +
			"not fit is rejected with status 503 (default: 256MiB)."},
	"metrics_listen": {groupHTTP, "HOST:PORT",
		"Also serve /metrics, /live, /health and /ready at this address: without " +
			"a key on loopback, elsewhere with an admin key (default: none)."},
	"allowed_hosts": {groupHTTP, "NAME,...",
		"Further host names of this node for HTTP clients. Without --api-keys, a node " +
			"on loopback answers only to localhost, addresses and its own names."},
	"allowed_origins": {groupHTTP, "ORIGIN,...",
		"Web pages that may call the API from a browser: https://chat.example " +
			"(default: only this node's own)."},
	"trusted_proxies": {groupHTTP, "CIDR,...",
		"Proxies whose X-Forwarded-For or Forwarded header names the client: " +
			"10.0.0.0/8. Clients without keys are identified by address."},
	"audit_log": {groupHTTP, "FILE", "Append one line of JSON for each change of state and each denied request " +
		"(default: write them to the log)."},
	"insecure": {groupHTTP, "",
		"Allow listening beyond loopback without certificates or keys, and key files that other " +
			"users can change."},
}

// expandVars puts the values of helpVars where help texts, defaults and placeholders name them as ${name}.
// kong.Vars would search all values for variables again for each flag, which takes most of the time of a
// short command.
func expandVars(k *kong.Kong) error {
	var names []string
	for name, value := range helpVars() {
		names = append(names, "${"+name+"}", value)
	}
	expand := strings.NewReplacer(names...).Replace
	return kong.Visit(k.Model.Node, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			v.Help = expand(v.Help)
		case *kong.Value:
			v.Help, v.Default = expand(v.Help), expand(v.Default)
			if v.Flag != nil {
				v.Flag.PlaceHolder = expand(v.Flag.PlaceHolder)
			}
		}
		return next(nil)
	})
}

// helpVars are the values that help texts name.
func helpVars() map[string]string {
	return map[string]string{
		"certsout":    "Create certificates in DIR, and a CA if it has none.",
		"certsrevoke": "Add the certificates of NAMEs to the file \"revoked\" in DIR, for --tls-revoked.",
		"certshosts":  "Host names and addresses at which others reach the nodes, in addition to NAME and loopback.",
		"keymodels": "Models that the key may use: 'kjv-*,llama' (default: all models and adapters). * does not " +
			"match a colon: kjv-*:* matches the adapters of these models, psalms the adapter of that name.",
		"natshelp":    "NATS server of a node (default: nats://" + defaultNATS + ").",
		"logincert":   "Client certificate, if the NATS server requires one; \"troupe certs\" creates it.",
		"loginprefix": "Inbox prefix of the NATS user, if its permissions require one: _INBOX_anna.",
		"config":      "YAML file with deployments, adapters and any of these options, with underscores (nats_listen).",

		"simulaterecording": "Simulate a recording of \"troupe record\", and compare. With a scenario, its nodes and " +
			"deployments serve the recorded requests.",
		"simulatecosts": "With --recording, the costs that \"troupe calibrate\" wrote; may be given several times " +
			"(default: those in the recording).",
		"simulatecheck": "With --recording, only make the recorded routing decisions again, and compare.",

		"reportrecording": "Report on a recording of \"troupe record\" instead of a cluster.",

		"recordcosts": "Also store these costs, which \"troupe calibrate\" wrote; may be given several times.",

		"reportoutput": "Output: table or json.",
		"whatiffor":    "With --what-if: virtual time to simulate (default: 10m).",
		"whatifset": "With --what-if: another value of a field: min_replicas, max_replicas, replicas, priority, " +
			"slo.ttft, slo.tpot or idle_after. May be repeated.",
		"whatifdemand": "With --what-if: other demand: chat=2x multiplies it, chat=1.5/s sets the requests per " +
			"second. " +
			"May be repeated.",
		"whatifcosts": "With --what-if: profile of troupe calibrate, beside those in its default folder. May be " +
			"repeated.",
		"planmodel":    "Explain one model instead: its replicas, and which devices could have one more.",
		"reportfor":    "Sample the cluster for this long, which gives peaks.",
		"reporttrace":  "Report on the requests of a trace instead of a cluster; needs --models.",
		"reportmodels": "YAML file with models to report on instead of a cluster: their devices, and speeds or shares.",

		"simset":    "Use VALUE for a key of the scenario, such as deployments.chat.replicas. Repeatable.",
		"simsweep":  "Simulate each of the values of a key. Repeatable, for a grid.",
		"simreplay": "Make the run of a record again, and check that each decision is the same.",

		"http": defaultHTTP, "nats": defaultNATS, "natscluster": defaultNATSCluster,
		"drain": defaultDrain, "grace": defaultGrace.String(),
		"kvdram": units.FormatBytes(maxDefaultDRAM), "kvremote": units.FormatBytes(kvblock.DefaultRemoteBytes),
		"kvwatermark": defaultWatermark(), "kvrestore": string(kv.RestoreAuto), "kvpolicy": kv.DefaultPolicy,
		"kvpolicies": strings.Join(kv.PolicyNames(), ", "), "kvreserve": fmt.Sprint(hbm.DefaultKVReserve),
		"steptimeout": replica.DefaultWatch.StepTimeout.String(),
		"hungtimeout": replica.DefaultWatch.HungTimeout.String(),
		"canary":      replica.DefaultWatch.Canary.String(),
		"calmodel":    "Folder of a model to measure; may be given several times (default: " + shippedModel + ").",
		"caltime":     "About how long to measure, in all.",
		"calout": "Folder for the profiles, one file for each model " +
			"(default: $$XDG_DATA_HOME/troupe/NAME/profiles).",
		"calnetwork":   "Also measure the network to the machine that printed this ticket.",
		"calnetworkat": "Only receive what another machine sends to measure the network, until Ctrl-C.",
	}
}

// documentOptions gives the flags of Options their help, group, placeholder and environment variable.
func documentOptions(k *kong.Kong) error {
	for _, command := range k.Model.Children {
		for _, flag := range command.Flags {
			doc, ok := optionDocs[strings.ReplaceAll(flag.Name, "-", "_")]
			if !ok || flag.Help != "" {
				continue
			}
			flag.Help, flag.OrigHelp, flag.PlaceHolder = doc.help, doc.help, doc.placeholder
			flag.Tag.Envs = []string{"TROUPE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))}
			if doc.group != "" {
				flag.Group = &kong.Group{Key: doc.group, Title: doc.group}
			}
		}
	}
	return nil
}

// commandGroups are the groups of commands in the help of troupe.
var commandGroups = []kong.Group{
	{Key: "run", Title: "Run a node"},
	{Key: "observe", Title: "Observe a cluster"},
	{Key: "plan", Title: "Plan a cluster"},
	{Key: "credentials", Title: "Create credentials"},
	{Key: "other", Title: "Other"},
}

// grammar returns the options of the parser that the tags of commands rely on: command groups, and
// help texts with their values.
func grammar() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(
			kong.ExplicitGroups(commandGroups).Apply(k),
			kong.PostBuild(documentOptions).Apply(k),
			kong.PostBuild(expandVars).Apply(k),
		)
	})
}
