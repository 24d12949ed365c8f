package llama

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/modelfile"
	"troupe/modelfile/safetensors"
)

const wantedFolder = "give the folder of a Hugging Face model with config.json and safetensors files"

// explainNoConfig returns an error for a path without a config.json that describes what the path
// is.
func explainNoConfig(roots modelfile.Roots, path string) error {
	_, err := roots.Stat(path)
	switch {
	case strings.EqualFold(filepath.Ext(path), ".gguf"):
		return fmt.Errorf("%s: GGUF files are not supported; %s", path, wantedFolder)
	case err == nil:
		return fmt.Errorf("%s: not a folder; %s", path, wantedFolder)
	case hasFile(roots, path, "*.gguf"):
		return fmt.Errorf(
			"%s: the folder has GGUF files, which are not supported, and no config.json; %s", path, wantedFolder,
		)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: no config.json, since there is no such folder; %s", path, wantedFolder)
	}
	return fmt.Errorf("%s: no config.json; %s", path, wantedFolder)
}

// hasFile reports whether a file name in a folder matches a pattern.
func hasFile(roots modelfile.Roots, folder, pattern string) bool {
	return slices.ContainsFunc(roots.Files(folder), func(path string) bool {
		ok, err := filepath.Match(pattern, filepath.Base(path))
		return err == nil && ok
	})
}

// readHeaders reads the headers of a model's weights.
func readHeaders(roots modelfile.Roots, path string) (map[string]safetensors.Tensor, error) {
	found, err := safetensors.Folder(roots, path)
	if !errors.Is(err, os.ErrNotExist) {
		return found, err
	}
	if _, index := roots.Stat(filepath.Join(path, "model.safetensors.index.json")); index == nil {
		return nil, fmt.Errorf("%s: the weights are incomplete; download the model again: %w", path, err)
	}
	for _, other := range []string{"*.gguf", "pytorch_model*.bin", "consolidated*.pth"} {
		if hasFile(roots, path, other) {
			return nil, fmt.Errorf(
				"%s: no weights in the safetensors format; %s is not supported: %s", path, other, wantedFolder,
			)
		}
	}
	return nil, fmt.Errorf(
		"%s: no weights; add model.safetensors, or model.safetensors.index.json and its files: %w", path, err)
}
