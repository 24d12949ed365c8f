package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"troupe/engine/safetensors"
)

const wanted = "give the folder of a Hugging Face model with config.json and safetensors files"

// noConfig says what a path without a config.json is instead of a model's folder.
func noConfig(path string) error {
	info, err := os.Stat(path)
	gguf, _ := filepath.Glob(filepath.Join(globbed(path), "*.gguf"))
	switch {
	case strings.EqualFold(filepath.Ext(path), ".gguf"):
		return fmt.Errorf("%s: GGUF files are not supported; %s", path, wanted)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s: not a folder; %s", path, wanted)
	case len(gguf) > 0:
		return fmt.Errorf("%s: no config.json beside %s, and GGUF files are not supported; %s", path,
			filepath.Base(gguf[0]), wanted)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: no config.json, since there is no such folder; %s", path, wanted)
	}
	return fmt.Errorf("%s: no config.json; %s", path, wanted)
}

// globbed escapes a path for filepath.Glob.
func globbed(path string) string {
	return strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[").Replace(path)
}

// folder reads the headers of a model's weights.
func folder(path string) (map[string]safetensors.Tensor, error) {
	found, err := safetensors.Folder(path)
	if !errors.Is(err, os.ErrNotExist) {
		return found, err
	}
	if _, index := os.Stat(filepath.Join(path, "model.safetensors.index.json")); index == nil {
		return nil, fmt.Errorf("%s: the weights are incomplete; download the model again: %w", path, err)
	}
	for _, other := range []string{"*.gguf", "pytorch_model*.bin", "consolidated*.pth"} {
		if files, _ := filepath.Glob(filepath.Join(globbed(path), other)); len(files) > 0 {
			return nil, fmt.Errorf("%s: no weights in the safetensors format; %s is not supported: %s", path,
				filepath.Base(files[0]), wanted)
		}
	}
	return nil, fmt.Errorf(
		"%s: no weights; model.safetensors or model.safetensors.index.json with its files must be there: %w", path, err)
}
