"""The values of one model that checks read: sizes, lengths, the class's abilities, quantization.

A value that the release computes in a way that is not followed here is not known: its method raises Incomputable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.parse_result import UNKNOWN
from policy.intake.derive.refusal import HEAD_NAMES
from policy.intake.derive.speculation import DraftModel
from policy.intake.launch.model_length import ModelLength, UnknownLength, model_length
from policy.intake.model.formula import Incomputable
from policy.intake.model.registry import ModelQuery, Unsupported, select_class
from policy.intake.model.tables import Model, all_model_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.configuration import Configuration
    from policy.intake.model.target import ServedModel

HEADS: Final = "get_total_num_attention_heads"
VOCABULARY: Final = "get_vocab_size"
HEADS_FIELD: Final = "num_attention_heads"
TEXT_PART: Final = "text_config"
OTHER_NAMES: Final = {HEADS_FIELD: HEAD_NAMES[1:]}
"""Other names that some classes have for an attribute in `config.json`."""
DRAFT: Final = ModelQuery(runner="draft")
QUANTIZATION: Final = "quantization_config"
SERVED_TYPES: Final = frozenset({"bfloat16", "float16"})
SHORT_TYPES: Final = {"float": "float32", "half": "float16"}
BACKEND: Final = "transformers"


class UnknownArgument(Incomputable):
    """An option is set to a value that is not known here; the exception's argument is the option's name."""


def has_known_type(configuration: Configuration) -> bool:
    """Whether the release's vLLM or Transformers has a class for the stated model type."""
    tables, model_type = configuration.tables, configuration.stated.get("model_type")
    return isinstance(model_type, str) and (model_type in tables.configs or model_type in tables.auto_models)


class ModelValues:
    """The values of the served model, or of a draft: each public method is one."""

    def __init__(
        self,
        configuration: Configuration,
        options: ParsedOptions,
        model: ServedModel | DraftModel,
        files: Sequence[str] = (),
    ) -> None:
        """The values of a model with its known ``files``."""
        self._configuration = configuration
        self._text = configuration.size_part()
        self._options = options
        self._model = model
        self._files = files

    def architectures(self) -> list[str]:
        """The architectures, a draft's as vLLM rewrites them."""
        return self._model.architectures

    def dtype(self) -> str:
        """The type of the weights as served, such as `bfloat16`."""
        stated = self._option("dtype")
        if stated in {None, "auto"}:
            found = [part.get(name) for part in (self._configuration, self._text) for name in ("dtype", "torch_dtype")]
            stated = next((name for name in found if name is not None), None)
            if stated not in SERVED_TYPES:
                raise Incomputable("dtype")
        return str(SHORT_TYPES.get(stated, stated))

    def files(self) -> Sequence[str]:
        """The names of the model's known files."""
        return self._files

    def has_remote_configuration(self) -> bool:
        """Whether the repository has a class of its own for the configuration."""
        found = self._configuration.stated.get("auto_map")
        return isinstance(found, dict) and "AutoConfig" in found

    def has_text_heads(self) -> bool:
        """Whether the language model's configuration has attention heads, if only `--hf-overrides` states it."""
        overrides = self._option("hf_overrides")
        part = overrides.get(TEXT_PART) if isinstance(overrides, dict) else None
        stated = self._configuration.stated.get(TEXT_PART)
        if not isinstance(part, dict) or not isinstance(stated, dict) or stated.keys() - part.keys():
            raise Incomputable(TEXT_PART)
        return (
            self._configuration.kind.text is not None
            or TEXT_PART in self._configuration.kind.parts
            or HEADS_FIELD in part
        )

    def heads(self) -> int:
        """The number of attention heads."""
        return self._count(HEADS_FIELD, HEADS)

    def is_generative(self) -> bool:
        """Whether the class generates text."""
        return self._served_model().resolved.model.is_text_generation_model

    def is_local_type(self) -> bool:
        """Whether vLLM or Transformers has a class for the model type; not known if only a newer release has one."""
        model_type = self._configuration.stated.get("model_type")
        if not isinstance(model_type, str):
            raise Incomputable("model_type")
        if has_known_type(self._configuration):
            return True
        if model_type in all_model_types():
            raise Incomputable("model_type")
        return False

    def is_newer_type(self) -> bool:
        """Whether only a newer vLLM or Transformers than the release's has a class for the model type."""
        model_type = self._configuration.stated.get("model_type")
        if not isinstance(model_type, str):
            raise Incomputable("model_type")
        return not has_known_type(self._configuration) and model_type in all_model_types()

    def is_pooling(self) -> bool:
        """Whether the class pools."""
        return self._served_model().resolved.model.is_pooling_model

    def is_recognized(self) -> bool:
        """Whether a draft's name or configuration determines the method."""
        return not isinstance(self._model, DraftModel) or self._model.is_recognized

    def is_supported(self) -> bool:
        """Whether the release has a class for a draft's architectures."""
        if isinstance(self._model, DraftModel):
            try:
                self._class()
            except Unsupported:
                return False
        return True

    def length(self) -> float:
        """The largest context."""
        return self._length().longest

    def length_field(self) -> str | None:
        """The field that determines the largest context; None if the configuration states no length."""
        return self._length().field

    def model_max_length(self) -> Any:
        """The field of this name, up to which `--max-model-len` may exceed the length."""
        return self._text.get("model_max_length")

    def model_type(self) -> str | None:
        """The ``model_type`` of the configuration, stated or by its fields; None if it is not known."""
        return self._configuration.model_type

    def n_predict(self) -> Any:
        """The number of tokens that a draft predicts by default."""
        return self._configuration.get("n_predict")

    def next_token_layers(self) -> Any:
        """The number of layers for further tokens, which is that of the tokens of most MTP drafts."""
        return self._configuration.get("num_nextn_predict_layers")

    def quantization(self) -> str | None:
        """The method that the configuration states, in lower case; None if it states no quantization."""
        found = self._configuration.get(QUANTIZATION)
        if found is None and self._text is not self._configuration:
            found = self._text.get(QUANTIZATION)
        if found is None:
            found = self._configuration.get("compression_config")
        if found is None:
            return None
        method = found.get("quant_method") if isinstance(found, dict) else None
        if not isinstance(method, str):
            raise Incomputable(QUANTIZATION)
        return method.lower()

    def runner_type(self) -> str:
        """The runner type that vLLM resolves."""
        return self._served_model().resolved.runner_type

    def served_length(self) -> int:
        """The largest context as served."""
        stated = self._option("max_model_len")
        if type(stated) is int and stated > 0:
            return stated
        if self._text.get("sliding_window") == 0:
            raise Incomputable("length")
        return self._length().served

    def supports_lora(self) -> bool:
        """Whether the class supports LoRA; not known for the Transformers backend."""
        model, tables = self._served_model().resolved.model, self._configuration.tables
        if model.module == BACKEND or "without_lora" not in tables.names:
            raise Incomputable("lora")
        return model.architecture not in tables.names["without_lora"]

    def supports_multimodal(self) -> bool:
        """Whether the class has inputs other than text."""
        return self._served_model().resolved.model.supports_multimodal

    def supports_pp(self) -> bool:
        """Whether the class supports pipeline parallelism; not known for the Transformers backend."""
        model = self._class()
        if model.module == BACKEND:
            raise Incomputable("pipeline")
        return model.supports_pp

    def vocabulary(self) -> int:
        """The size of the vocabulary."""
        return self._count("vocab_size", VOCABULARY)

    def _class(self) -> Model:
        """The registry's entry. Raises Unsupported for a draft without one."""
        if not isinstance(self._model, DraftModel):
            return self._model.resolved.model
        return select_class(self._configuration.tables, self._configuration, self._model.architectures, DRAFT).model

    def _served_model(self) -> ServedModel:
        if isinstance(self._model, DraftModel):
            raise Incomputable("draft")
        return self._model

    def _count(self, name: str, method: str) -> int:
        """A number; not known if the release computes it differently for this model type."""
        convertor = self._configuration.tables.convertors.get(self._configuration.model_type or "", {})
        found = self._text.get(name)
        for other in OTHER_NAMES.get(name, ()):
            found = self._text.get(other) if found is None else found
        if method in convertor.get("changes", ()) or type(found) is not int or found <= 0:
            raise Incomputable(name)
        return found

    def _length(self) -> ModelLength:
        window = self._text.get("sliding_window") if self._option("disable_sliding_window") else None
        try:
            return model_length(self._configuration, window if type(window) is int else None)
        except UnknownLength as error:
            raise Incomputable("length") from error

    def _option(self, name: str) -> Any:
        found = self._options.others[name][0] if name in self._options.others else self._options.values.get(name)
        if found is UNKNOWN:
            raise UnknownArgument(name)
        return found
