"""Models of many families that no test, document or other benchmark uses: `make(name)` returns a module and its inputs.

Weights are random. A model that usually has more than about 100 million parameters is built smaller, with all its kinds
of layers. `make` calibrates batch norms as `tests/zoo.py` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from zoo import Example, calibrate, torchvision_models

os.environ["HF_HUB_OFFLINE"] = "1"


class Wrapped(nn.Module):
    """A model of transformers with positional instead of keyword arguments. It returns only the named outputs."""

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], outputs: tuple[str, ...], fixed: dict[str, Any]
    ) -> None:
        super().__init__()
        self.model, self.names, self.outputs, self.fixed = model, names, outputs, fixed

    def forward(self, *inputs: torch.Tensor) -> Any:
        result = self.model(**dict(zip(self.names, inputs, strict=True)), **self.fixed)
        if isinstance(result, torch.Tensor):
            return result
        selected = tuple(result[name] for name in self.outputs)
        return selected[0] if len(selected) == 1 else selected


class Called(nn.Module):
    """A module that computes `function(model, *inputs)`, such as a part of a model."""

    def __init__(self, model: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self.model, *inputs)


Build = Callable[[], Example]


def _ids(length: int, vocabulary: int = 1000, batch: int = 1) -> torch.Tensor:
    return torch.randint(3, vocabulary, (batch, length))


def _image(size: int = 224) -> torch.Tensor:
    return torch.randn(1, 3, size, size)


def _timm(name: str, size: int = 224, **arguments: object) -> Build:
    def build() -> Example:
        torchvision_models()
        import timm

        return timm.create_model(name, **arguments), (_image(size),)

    return build


def _tv(path: str, inputs: Callable[[], tuple[torch.Tensor, ...]], function: Any = None, **arguments: object) -> Build:
    def build() -> Example:
        builder: Any = torchvision_models()
        for part in path.split("."):
            builder = getattr(builder, part)
        model = builder(**arguments)
        return (model if function is None else Called(model, function)), inputs()

    return build


def _hf(
    name: str,
    inputs: Callable[[], dict[str, torch.Tensor]],
    outputs: str | tuple[str, ...] = "last_hidden_state",
    config: str = "",
    fixed: dict[str, Any] | None = None,
    then: Callable[[Any], object] = lambda model: None,
    **arguments: Any,
) -> Build:
    """Return a builder of a model of transformers.

    Args:
        name: Class of the model.
        inputs: Makes the inputs, by name.
        outputs: Names of the outputs to return.
        config: Class of the configuration, if it is not the model's `config_class`.
        fixed: Further keyword arguments of each call.
        then: Changes the new model.
        **arguments: Arguments of the configuration.
    """

    def build() -> Example:
        torchvision_models()
        import transformers

        kind = getattr(transformers, name)
        configuration = (getattr(transformers, config) if config else kind.config_class)(**arguments)
        if hasattr(configuration, "use_cache"):
            configuration.use_cache = False
        tensors = inputs()
        model = kind(configuration)
        then(model)
        names = (outputs,) if isinstance(outputs, str) else outputs
        return Wrapped(model, tuple(tensors), names, fixed or {}), tuple(tensors.values())

    return build


def _text(length: int = 32) -> dict[str, torch.Tensor]:
    mask = torch.ones(1, length, dtype=torch.int64)
    mask[:, length - 5 :] = 0
    return {"input_ids": _ids(length), "attention_mask": mask}


# fmt: off
SMALL = {
    "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 1000,
}
"""Configuration of a small text model, for classes whose configuration has these names."""
DECODER = SMALL | {"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128, "pad_token_id": 0}
SEQ2SEQ = {
    "vocab_size": 1000, "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 128,
}
# fmt: on
VISION = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}


def _both(length: int = 24) -> dict[str, torch.Tensor]:
    return {"input_ids": _ids(length), "decoder_input_ids": _ids(9)}


def _pixels(size: int = 224) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"pixel_values": _image(size)}


def _video(frames: int, size: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"pixel_values": torch.randn(1, frames, 3, size, size)}


def _series() -> dict[str, torch.Tensor]:
    return {"past_values": torch.randn(1, 96, 3)}


# fmt: off
MODELS: dict[str, tuple[str, Build]] = {
    # torchvision
    "tv/regnet_y_400mf": ("CNN", _tv("regnet_y_400mf", lambda: (_image(),))),
    "tv/mnasnet0_5": ("CNN", _tv("mnasnet0_5", lambda: (_image(),))),
    "tv/googlenet": ("CNN", _tv("googlenet", lambda: (_image(),), init_weights=True, aux_logits=False)),
    "tv/resnext50_32x4d": ("CNN", _tv("resnext50_32x4d", lambda: (_image(),))),
    "tv/swin_v2_t": ("ViT", _tv("swin_v2_t", lambda: (_image(),))),
    "tv/maxvit_t": ("hybrid", _tv("maxvit_t", lambda: (_image(),))),
    "tv/fcn_resnet50": (
        "segmentation",
        _tv("segmentation.fcn_resnet50", lambda: (_image(),), lambda m, x: m(x)["out"], weights_backbone=None),
    ),
    "tv/lraspp_mobilenet_v3_large": (
        "segmentation",
        _tv(
            "segmentation.lraspp_mobilenet_v3_large", lambda: (_image(),), lambda m, x: m(x)["out"],
            weights_backbone=None,
        ),
    ),
    "tv/retinanet_resnet50_fpn": (
        "detection, without post-processing",
        _tv(
            "detection.retinanet_resnet50_fpn", lambda: (_image(),),
            lambda m, x: tuple(m.head(list(m.backbone(x).values())).values()), weights_backbone=None,
        ),
    ),
    "tv/fcos_resnet50_fpn": (
        "detection, without post-processing",
        _tv(
            "detection.fcos_resnet50_fpn", lambda: (_image(),),
            lambda m, x: tuple(m.head(list(m.backbone(x).values())).values()), weights_backbone=None,
        ),
    ),
    "tv/ssdlite320_mobilenet_v3_large": (
        "detection, with post-processing",
        _tv(
            "detection.ssdlite320_mobilenet_v3_large", lambda: (_image(320),),
            lambda m, x: tuple(m(list(x))[0].values()), weights_backbone=None,
        ),
    ),
    "tv/raft_small": (
        "optical flow",
        _tv(
            "optical_flow.raft_small", lambda: (_image(128), _image(128)),
            lambda m, a, b: m(a, b, num_flow_updates=3)[-1],
        ),
    ),
    "tv/r3d_18": ("video", _tv("video.r3d_18", lambda: (torch.randn(1, 3, 8, 112, 112),))),
    "tv/s3d": ("video", _tv("video.s3d", lambda: (torch.randn(1, 3, 16, 224, 224),))),
    "tv/mvit_v2_s": ("video", _tv("video.mvit_v2_s", lambda: (torch.randn(1, 3, 16, 224, 224),))),
    "tv/swin3d_t": ("video", _tv("video.swin3d_t", lambda: (torch.randn(1, 3, 8, 112, 112),))),
    # timm
    "timm/mobilenetv4_conv_small": ("CNN", _timm("mobilenetv4_conv_small")),
    "timm/ghostnetv2_100": ("CNN", _timm("ghostnetv2_100")),
    "timm/convnextv2_nano": ("CNN", _timm("convnextv2_nano")),
    "timm/inception_next_atto": ("CNN", _timm("inception_next_atto")),
    "timm/repvgg_a0": ("CNN", _timm("repvgg_a0")),
    "timm/mobileone_s0": ("CNN", _timm("mobileone_s0")),
    "timm/hrnet_w18_small": ("CNN", _timm("hrnet_w18_small")),
    "timm/dpn68": ("CNN", _timm("dpn68")),
    "timm/res2net50_14w_8s": ("CNN", _timm("res2net50_14w_8s")),
    "timm/eca_nfnet_l0": ("CNN", _timm("eca_nfnet_l0")),
    "timm/skresnet18": ("CNN", _timm("skresnet18")),
    "timm/ese_vovnet19b_dw": ("CNN", _timm("ese_vovnet19b_dw")),
    "timm/starnet_s1": ("CNN", _timm("starnet_s1")),
    "timm/focalnet_tiny_srf": ("CNN", _timm("focalnet_tiny_srf")),
    "timm/mambaout_femto": ("CNN", _timm("mambaout_femto")),
    "timm/deit_tiny_patch16_224": ("ViT", _timm("deit_tiny_patch16_224")),
    "timm/cait_xxs24_224": ("ViT", _timm("cait_xxs24_224")),
    "timm/xcit_nano_12_p16_224": ("ViT", _timm("xcit_nano_12_p16_224")),
    "timm/crossvit_tiny_240": ("ViT", _timm("crossvit_tiny_240", 240)),
    "timm/eva02_tiny_patch14_224": ("ViT", _timm("eva02_tiny_patch14_224")),
    "timm/hiera_tiny_224": ("ViT", _timm("hiera_tiny_224")),
    "timm/twins_svt_small": ("ViT", _timm("twins_svt_small")),
    "timm/davit_tiny": ("ViT", _timm("davit_tiny")),
    "timm/nest_tiny": ("ViT", _timm("nest_tiny")),
    "timm/pvt_v2_b0": ("ViT", _timm("pvt_v2_b0")),
    "timm/tiny_vit_5m_224": ("hybrid", _timm("tiny_vit_5m_224")),
    "timm/levit_128s": ("hybrid", _timm("levit_128s")),
    "timm/efficientvit_b0": ("hybrid", _timm("efficientvit_b0")),
    "timm/fastvit_t8": ("hybrid", _timm("fastvit_t8", 256)),
    "timm/edgenext_xx_small": ("hybrid", _timm("edgenext_xx_small", 256)),
    "timm/efficientformerv2_s0": ("hybrid", _timm("efficientformerv2_s0")),
    "timm/mobilevitv2_050": ("hybrid", _timm("mobilevitv2_050", 256)),
    "timm/coatnet_nano_rw_224": ("hybrid", _timm("coatnet_nano_rw_224")),
    "timm/lambda_resnet26t": ("hybrid", _timm("lambda_resnet26t", 256)),
    "timm/halonet26t": ("hybrid", _timm("halonet26t", 256)),
    "timm/botnet26t_256": ("hybrid", _timm("botnet26t_256", 256)),
    "timm/swiftformer_xs": ("hybrid", _timm("swiftformer_xs")),
    "timm/volo_d1_224": ("hybrid", _timm("volo_d1_224")),
    "timm/gmlp_ti16_224": ("MLP", _timm("gmlp_ti16_224")),
    "timm/sequencer2d_s": ("recurrent vision", _timm("sequencer2d_s")),
    # transformers: vision
    "hf/siglip_vision": ("ViT", _hf("SiglipVisionModel", _pixels(), **VISION)),
    "hf/dinov2_with_registers": ("ViT", _hf("Dinov2WithRegistersModel", _pixels(), **VISION | {"image_size": 224})),
    "hf/sam_vision": (
        "ViT",
        _hf(
            "SamVisionModel", _pixels(256), hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
            initializer_range=0.05, global_attn_indexes=[1], image_size=256, window_size=7, mlp_dim=192,
        ),
    ),
    "hf/segformer": ("segmentation", _hf("SegformerForSemanticSegmentation", _pixels(256), "logits")),
    "hf/maskformer_swin": ("segmentation", _hf("MaskFormerSwinModel", _pixels(), "last_hidden_state")),
    "hf/yolos": (
        "detection",
        _hf(
            "YolosForObjectDetection", _pixels(), ("logits", "pred_boxes"),
            **VISION | {"image_size": [224, 224], "num_detection_tokens": 20},
        ),
    ),
    "hf/rt_detr": (
        "detection",
        _hf("RTDetrForObjectDetection", _pixels(320), ("logits", "pred_boxes"), decoder_layers=2, num_queries=50),
    ),
    "hf/dpt": (
        "depth",
        _hf(
            "DPTForDepthEstimation", _pixels(), "predicted_depth",
            then=lambda model: nn.init.ones_(model.head.head[-2].bias),  # else the last ReLU returns only zeros
            **VISION | {"num_hidden_layers": 4, "image_size": 224, "backbone_out_indices": [0, 1, 2, 3],
                        "initializer_range": 0.1, "neck_hidden_sizes": [32, 48, 64, 64], "fusion_hidden_size": 64},
        ),
    ),
    "hf/glpn": ("depth", _hf("GLPNForDepthEstimation", _pixels(), "predicted_depth")),
    "hf/swin2sr": (
        "super-resolution",
        _hf("Swin2SRForImageSuperResolution", _pixels(64), "reconstruction", embed_dim=60, depths=[2, 2],
            num_heads=[4, 4]),
    ),
    "hf/videomae": ("video", _hf("VideoMAEModel", _video(8, 112), **VISION | {"image_size": 112, "num_frames": 8})),
    "hf/timesformer": (
        "video", _hf("TimesformerModel", _video(4, 112), **VISION | {"image_size": 112, "num_frames": 4})
    ),
    # transformers: audio
    "hf/whisper": (
        "audio encoder-decoder",
        _hf(
            "WhisperModel",
            lambda: {"input_features": torch.randn(1, 80, 600), "decoder_input_ids": _ids(7)},
            vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, max_source_positions=300,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        ),
    ),
    "hf/wavlm": (
        "audio",
        _hf("WavLMModel", lambda: {"input_values": torch.randn(1, 8000)}, **SMALL | {"num_conv_pos_embeddings": 16}),
    ),
    "hf/hubert": (
        "audio",
        _hf("HubertModel", lambda: {"input_values": torch.randn(1, 8000)}, **SMALL | {"num_conv_pos_embeddings": 16}),
    ),
    "hf/ast": (
        "audio",
        _hf("ASTModel", lambda: {"input_values": torch.randn(1, 256, 128)}, **VISION | {"max_length": 256}),
    ),
    "hf/encodec": (
        "audio codec",
        _hf("EncodecModel", lambda: {"input_values": torch.randn(1, 1, 4800)}, ("audio_values",), num_filters=16,
            hidden_size=64, codebook_size=64),
    ),
    "hf/dac": ("audio codec", _hf("DacModel", lambda: {"input_values": torch.randn(1, 1, 4096)}, ("audio_values",),
                                  encoder_hidden_size=16, decoder_hidden_size=128, codebook_size=64)),
    "hf/univnet": (
        "vocoder",
        _hf(
            "UnivNetModel",
            lambda: {"input_features": torch.randn(1, 24, 100), "noise_sequence": torch.randn(1, 24, 64)},
            "waveforms",
        ),
    ),
    "hf/speecht5_hifigan": ("vocoder", _hf("SpeechT5HifiGan", lambda: {"spectrogram": torch.randn(40, 80)},
                                           upsample_initial_channel=128)),
    # transformers: text encoders
    "hf/albert": ("encoder", _hf("AlbertModel", _text, **SMALL)),
    "hf/roberta": ("encoder", _hf("RobertaForSequenceClassification", _text, "logits", **SMALL)),
    "hf/electra": ("encoder", _hf("ElectraForTokenClassification", _text, "logits", **SMALL)),
    "hf/deberta_v2": (
        "encoder",
        _hf("DebertaV2Model", _text, **SMALL | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    ),
    "hf/mpnet": ("encoder", _hf("MPNetModel", _text, **SMALL)),
    "hf/modernbert": ("encoder", _hf("ModernBertModel", _text, **SMALL | {"pad_token_id": 0, "cls_token_id": 1,
                                     "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2})),
    "hf/squeezebert": ("encoder", _hf("SqueezeBertModel", _text, **SMALL | {"embedding_size": 128})),
    "hf/convbert": ("encoder", _hf("ConvBertModel", _text, **SMALL)),
    "hf/fnet": ("encoder", _hf("FNetModel", lambda: {"input_ids": _ids(32)}, **{key: value for key, value in
                               SMALL.items() if key != "num_attention_heads"})),
    "hf/longformer": ("encoder", _hf("LongformerModel", _text, **SMALL | {"attention_window": 16})),
    "hf/layoutlm": (
        "encoder with boxes",
        _hf("LayoutLMModel", lambda: _text() | {"bbox": torch.randint(0, 500, (1, 32, 4)).sort(-1).values}, **SMALL),
    ),
    # transformers: decoders
    "hf/llama": ("decoder", _hf("LlamaForCausalLM", _text, "logits", **DECODER)),
    "hf/qwen3": ("decoder", _hf("Qwen3ForCausalLM", _text, "logits", **DECODER)),
    "hf/gemma3": ("decoder", _hf("Gemma3ForCausalLM", _text, "logits", **DECODER | {"sliding_window": 16})),
    "hf/phi3": ("decoder", _hf("Phi3ForCausalLM", _text, "logits", **DECODER)),
    "hf/opt": ("decoder", _hf("OPTForCausalLM", _text, "logits", hidden_size=128, num_hidden_layers=2, ffn_dim=256,
                              num_attention_heads=4, vocab_size=1000, word_embed_proj_dim=128)),
    "hf/bloom": ("decoder", _hf("BloomForCausalLM", _text, "logits", hidden_size=128, n_layer=2, n_head=4,
                                vocab_size=1000)),
    "hf/gpt_neox": ("decoder", _hf("GPTNeoXForCausalLM", _text, "logits", **SMALL)),
    "hf/mixtral": ("decoder, experts", _hf("MixtralForCausalLM", _text, "logits",
                                           **DECODER | {"num_local_experts": 4})),
    "hf/mamba": ("state-space", _hf("MambaForCausalLM", lambda: {"input_ids": _ids(16)}, "logits", hidden_size=128,
                                    num_hidden_layers=2, vocab_size=1000)),
    "hf/mamba2": (
        "state-space",
        _hf("Mamba2ForCausalLM", lambda: {"input_ids": _ids(16)}, "logits", hidden_size=128, num_hidden_layers=2,
            vocab_size=1000, num_heads=8, head_dim=32, state_size=16, n_groups=2, chunk_size=8),
    ),
    "hf/rwkv": ("recurrent", _hf("RwkvForCausalLM", lambda: {"input_ids": _ids(8)}, "logits", hidden_size=128,
                                 num_hidden_layers=2, vocab_size=1000)),
    # transformers: encoder-decoders
    "hf/t5": (
        "encoder-decoder",
        _hf("T5Model", _both, vocab_size=1000, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4),
    ),
    "hf/bart": ("encoder-decoder", _hf("BartModel", _both, **SEQ2SEQ)),
    "hf/marian": ("encoder-decoder", _hf("MarianModel", _both, **SEQ2SEQ | {"pad_token_id": 0,
                                         "decoder_start_token_id": 0, "eos_token_id": 1, "forced_eos_token_id": 1})),
    # transformers: several modalities, series
    "hf/clip": (
        "text and image",
        _hf(
            "CLIPModel", lambda: {"input_ids": _ids(16), "pixel_values": _image(),
                                  "attention_mask": _text(16)["attention_mask"]},
            ("logits_per_image", "text_embeds", "image_embeds"),
            text_config=SMALL | {"max_position_embeddings": 32, "eos_token_id": 2}, vision_config=VISION,
        ),
    ),
    "hf/vilt": ("text and image", _hf("ViltModel", lambda: _text() | {"pixel_values": _image(128)},
                                      **SMALL | {"image_size": 128, "patch_size": 32})),
    "hf/owlvit": (
        "text and image, detection",
        _hf(
            "OwlViTForObjectDetection", lambda: {"input_ids": _ids(16), "pixel_values": _image(),
                                                 "attention_mask": _text(16)["attention_mask"]},
            ("logits", "pred_boxes"), text_config=SMALL, vision_config=VISION | {"image_size": 224}, projection_dim=128,
        ),
    ),
    "hf/patchtst": (
        "time series",
        _hf("PatchTSTForPrediction", _series, "prediction_outputs", num_input_channels=3, context_length=96,
            patch_length=12, patch_stride=6, prediction_length=24, d_model=64, num_hidden_layers=2),
    ),
    "hf/patchtsmixer": (
        "time series",
        _hf("PatchTSMixerForPrediction", _series, "prediction_outputs", num_input_channels=3, context_length=96,
            patch_length=12, patch_stride=12, prediction_length=24, d_model=32, num_layers=2),
    ),
    "hf/timesfm": (
        "time series",
        _hf("TimesFmModel", lambda: {"past_values": torch.randn(1, 128), "past_values_padding":
            torch.zeros(1, 128, dtype=torch.int64), "freq": torch.zeros(1, 1, dtype=torch.int64)},
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16, intermediate_size=64),
    ),
    "hf/decision_transformer": (
        "reinforcement learning",
        _hf(
            "DecisionTransformerModel",
            lambda: {
                "states": torch.randn(1, 10, 17), "actions": torch.randn(1, 10, 4), "rewards": torch.randn(1, 10, 1),
                "returns_to_go": torch.randn(1, 10, 1), "timesteps": torch.arange(10)[None],
                "attention_mask": torch.ones(1, 10, dtype=torch.int64),
            },
            ("action_preds", "state_preds"), hidden_size=64, n_layer=2, n_head=2,
        ),
    ),
}
# fmt: on
"""Family and builder of each model, by name."""


def make(name: str) -> Example:
    """Make a model, calibrated and in eval mode, and its example inputs: the same in each call."""
    torch.manual_seed(0)
    model, inputs = MODELS[name][1]()
    return calibrate(model, inputs), inputs
