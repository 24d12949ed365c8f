package dst

import (
	"fmt"
	"strings"
	"sync"

	"troupe/modelfile"
	"troupe/modelfile/digest"
	"troupe/modelfile/tokenizer"
)

// tokenizerFolder is the folder of the tokenizer, the template and the configuration of all models.
// It is relative to this package, so that a run does not depend on where the repository is.
const tokenizerFolder = "../../models/kjv-2m"

// modelPath returns a path of tokenizerFolder that no other model, and no earlier files of this
// model, have. Each path stands for different weights.
func modelPath(model, files int) string {
	return strings.Replace(tokenizerFolder, "kjv", strings.Repeat("./", model+files*(len(models)+maxCrowd))+"kjv", 1)
}

// allModels are the models that a run can have.
var allModels = modelsOf(maxCrowd)

// revisionIn returns the revision of a model, as revisionOf does, with a path of modelPath.
func revisionIn(path string) string {
	steps := max(strings.Count(path, "./")-strings.Count(tokenizerFolder, "./"), 0)
	return revisionOf(allModels[steps%len(allModels)].name, steps/len(allModels))
}

// revisionOf names a revision of a model: the files of which there were the given number of others before.
// Replicas of different revisions compute different tokens.
func revisionOf(model string, files int) string {
	if files == 0 {
		return model
	}
	return fmt.Sprintf("%s@%d", model, files)
}

// textOf is the tokenizer of all models.
var textOf = sync.OnceValue(func() *tokenizer.Tokenizer {
	t, err := tokenizer.LoadFor(modelfile.Roots{}, tokenizerFolder, vocab)
	if err != nil {
		panic(err)
	}
	return t
})

// settings is the digest of the files in tokenizerFolder.
var settings = sync.OnceValue(func() digest.Sum {
	sum, err := digest.Settings(modelfile.Roots{}, tokenizerFolder, nil)
	if err != nil {
		panic(err)
	}
	return sum
})

// digestsOf returns the digests of the weights at a path, and of the revision that they make with
// the settings.
func digestsOf(path string) (weights, revision string) {
	sum := digest.Of([]byte(path)).Sum
	return sum.String(), digest.Revision(sum, settings()).String()
}
