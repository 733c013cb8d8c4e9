"""The values of one model that checks read: sizes, lengths, the class's abilities, quantization.

A value that the release computes in a way that is not followed here is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.derive.speculation import DraftModel
from policy.intake.launch.model_length import ModelLength, UnknownLength, model_length
from policy.intake.model.formula import Incomputable
from policy.intake.model.registry import ModelQuery, Unsupported, is_moe, select_class
from policy.intake.model.tables import all_model_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.configuration import Configuration
    from policy.intake.model.target import Target

HEADS: Final = "get_total_num_attention_heads"
VOCABULARY: Final = "get_vocab_size"
OTHER_NAMES: Final = {"num_attention_heads": "n_head"}
"""What the classes of GPT-2 and its like call an attribute in `config.json`."""
DRAFT: Final = ModelQuery(runner="draft")
QUANTIZATION: Final = "quantization_config"


class ModelValues:
    """The values of the served model, or of a draft."""

    def __init__(
        self,
        configuration: Configuration,
        options: ParsedOptions,
        model: Target | DraftModel,
        files: Sequence[str] = (),
    ) -> None:
        self._configuration = configuration
        self._text = configuration.text()
        self._options = options
        self._model = model
        self._readers: Mapping[str, Callable[[], Any]] = {
            "architectures": lambda: model.architectures,
            "dtype": self._dtype,
            "has_remote_configuration": lambda: "AutoConfig" in _mapping(configuration.stated.get("auto_map")),
            "heads": lambda: self._count("num_attention_heads", HEADS),
            "files": lambda: files,
            "is_generative": lambda: self._class("is_text_generation_model"),
            "is_moe": lambda: is_moe(configuration),
            "is_pooling": lambda: self._class("is_pooling_model"),
            "is_local_type": self._is_local_type,
            "is_supported": self._is_supported,
            "is_recognized": lambda: not isinstance(model, DraftModel) or model.is_recognized,
            "length": lambda: self._length().longest,
            "length_field": lambda: self._length().field,
            "model_max_length": lambda: self._text.get("model_max_length"),
            "model_type": lambda: configuration.model_type,
            "n_predict": lambda: configuration.get("n_predict"),
            "quantization": self._quantization,
            "served_length": self._served,
            "supports_lora": self._supports_lora,
            "supports_multimodal": lambda: self._class("supports_multimodal"),
            "text_model_type": lambda: self._text.model_type,
            "vocabulary": lambda: self._count("vocab_size", VOCABULARY),
            "runner_type": lambda: self._resolved("runner_type"),
            "convert_type": lambda: self._resolved("convert_type"),
        }

    def get(self, name: str) -> Any:
        """The value of a name. Raises Incomputable if it is not known here."""
        return self._readers[name]()

    def _class(self, flag: str) -> Any:
        if isinstance(self._model, DraftModel):
            raise Incomputable(flag)
        return getattr(self._model.resolved.model, flag)

    def _resolved(self, name: str) -> Any:
        if isinstance(self._model, DraftModel):
            raise Incomputable(name)
        return getattr(self._model.resolved, name)

    def _count(self, name: str, method: str) -> int:
        convertor = self._configuration.tables.convertors.get(self._configuration.model_type or "", {})
        found = self._text.get(name)
        if found is None:
            found = self._text.get(OTHER_NAMES.get(name, name))
        if method in convertor.get("changes", ()) or type(found) is not int or found <= 0:
            raise Incomputable(name)
        return found

    def _length(self) -> ModelLength:
        window = None
        if self._option("disable_sliding_window"):
            found = self._text.get("sliding_window")
            window = found if type(found) is int else None
        try:
            return model_length(self._configuration, window)
        except UnknownLength as error:
            raise Incomputable("length") from error

    def _served(self) -> Any:
        stated = self._option("max_model_len")
        if type(stated) is int and stated > 0:
            return stated
        if self._text.get("sliding_window") == 0:
            raise Incomputable("length")
        return self._length().served

    def _quantization(self) -> Any:
        """The method that the configuration states, in lower case; None if it states no quantization."""
        for part in (self._configuration, self._text):
            found = part.get(QUANTIZATION)
            if found is not None:
                break
        else:
            found = self._configuration.get("compression_config")
        if found is None:
            return None
        method = found.get("quant_method") if isinstance(found, dict) else None
        if not isinstance(method, str):
            raise Incomputable(QUANTIZATION)
        return method.lower()

    def _dtype(self) -> Any:
        """The type of the weights as served, such as `bfloat16`."""
        stated = self._option("dtype")
        if stated in {None, "auto"}:
            for part in (self._configuration, self._text):
                stated = part.get("dtype") or part.get("torch_dtype")
                if stated is not None:
                    break
            if stated not in {"float16", "bfloat16"}:
                raise Incomputable("dtype")
        return {"half": "float16", "float": "float32"}.get(stated, stated)

    def _is_local_type(self) -> bool:
        """Whether vLLM or Transformers has a class for the model type. Not known for one that only a newer one has."""
        tables, model_type = self._configuration.tables, self._configuration.stated.get("model_type")
        if not isinstance(model_type, str):
            raise Incomputable("model_type")
        if model_type in tables.configs or model_type in tables.auto_models:
            return True
        if model_type in all_model_types():
            raise Incomputable("model_type")
        return False

    def _is_supported(self) -> bool:
        """Whether the release has a class for a draft's architectures."""
        if not isinstance(self._model, DraftModel):
            return True
        try:
            select_class(self._configuration.tables, self._configuration, self._model.architectures, DRAFT)
        except Unsupported:
            return False
        return True

    def _supports_lora(self) -> bool:
        if isinstance(self._model, DraftModel):
            raise Incomputable("lora")
        model, tables = self._model.resolved.model, self._configuration.tables
        if model.module == "transformers" or "without_lora" not in tables.names:
            raise Incomputable("lora")
        return model.architecture not in tables.names["without_lora"]

    def _option(self, name: str) -> Any:
        found = self._options.values.get(name)
        if found is None and name in self._options.others:
            found = self._options.others[name][0]
            if type(found) is object:
                raise Incomputable(name)
        return found


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
