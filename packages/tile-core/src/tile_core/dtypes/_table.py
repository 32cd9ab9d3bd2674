"""Generated from dtypes.yaml by `python -m tile_core.dtypes.generate`; change that file, not this one."""

# fmt: off
# ruff: noqa: E501
from __future__ import annotations

from typing import Any

# family, kind, code, bits, format, lanes, torch, numpy, tvm, exported
ROWS: dict[str, tuple[Any, ...]] = {
    'bool': ('boolean', 'bool', 6, 8, None, (), 'bool', 'bool', 'bool', True),
    'int4': ('signed integer', 'int', 0, 4, None, (), 'int8', 'ml_dtypes.int4', 'int4', True),
    'int8': ('signed integer', 'int', 0, 8, None, (2, 4, 8, 16, 32, 64), 'int8', 'int8', 'int8', True),
    'int16': ('signed integer', 'int', 0, 16, None, (2, 4, 8, 16, 32, 64), 'int16', 'int16', 'int16', True),
    'int32': ('signed integer', 'int', 0, 32, None, (2, 4, 8, 16, 32, 64), 'int32', 'int32', 'int32', True),
    'int64': ('signed integer', 'int', 0, 64, None, (2, 4, 8, 16, 32, 64), 'int64', 'int64', 'int64', True),
    'uint4': ('unsigned integer', 'uint', 1, 4, None, (), 'uint8', 'ml_dtypes.uint4', 'uint4', False),
    'uint8': ('unsigned integer', 'uint', 1, 8, None, (2, 4, 8, 16, 32, 64), 'uint8', 'uint8', 'uint8', True),
    'uint16': ('unsigned integer', 'uint', 1, 16, None, (2, 4, 8, 16, 32, 64), 'uint16', 'uint16', 'uint16', True),
    'uint32': ('unsigned integer', 'uint', 1, 32, None, (2, 4, 8, 16, 32, 64), 'uint32', 'uint32', 'uint32', True),
    'uint64': ('unsigned integer', 'uint', 1, 64, None, (2, 4, 8, 16, 32, 64), 'uint64', 'uint64', 'uint64', True),
    'float16': ('float', 'float', 2, 16, (5, 10, 15, 'ieee'), (2, 4, 8, 16, 32, 64), 'float16', 'float16', 'float16', True),
    'float32': ('float', 'float', 2, 32, (8, 23, 127, 'ieee'), (2, 4, 8, 16, 32, 64), 'float32', 'float32', 'float32', True),
    'float64': ('float', 'float', 2, 64, (11, 52, 1023, 'ieee'), (2, 4, 8, 16, 32, 64), 'float64', 'float64', 'float64', True),
    'bfloat16': ('bfloat16', 'float', 4, 16, (8, 7, 127, 'ieee'), (2,), 'bfloat16', 'ml_dtypes.bfloat16', 'bfloat16', True),
    'tfloat32': ('tfloat32', 'float', 130, 32, (8, 10, 127, 'ieee'), (2, 4, 8, 16, 32, 64), 'float32', 'float32', 'custom[tfloat32]', True),
    'float8_e3m4': ('float8', 'float', 7, 8, (3, 4, 3, 'ieee'), (2, 4, 8, 16, 32, 64), None, 'ml_dtypes.float8_e3m4', 'float8_e3m4', True),
    'float8_e4m3': ('float8', 'float', 8, 8, (4, 3, 7, 'fn'), (2, 4, 8, 16, 32, 64), 'float8_e4m3fn', 'ml_dtypes.float8_e4m3fn', 'float8_e4m3', True),
    'float8_e4m3b11fnuz': ('float8', 'float', 9, 8, (4, 3, 11, 'fnuz'), (2, 4, 8, 16, 32, 64), None, 'ml_dtypes.float8_e4m3b11fnuz', 'float8_e4m3b11fnuz', True),
    'float8_e4m3fn': ('float8', 'float', 10, 8, (4, 3, 7, 'fn'), (2, 4, 8, 16, 32, 64), 'float8_e4m3fn', 'ml_dtypes.float8_e4m3fn', 'float8_e4m3fn', True),
    'float8_e4m3fnuz': ('float8', 'float', 11, 8, (4, 3, 8, 'fnuz'), (2, 4, 8, 16, 32, 64), 'float8_e4m3fnuz', 'ml_dtypes.float8_e4m3fnuz', 'float8_e4m3fnuz', True),
    'float8_e5m2': ('float8', 'float', 12, 8, (5, 2, 15, 'ieee'), (2, 4, 8, 16, 32, 64), 'float8_e5m2', 'ml_dtypes.float8_e5m2', 'float8_e5m2', True),
    'float8_e5m2fnuz': ('float8', 'float', 13, 8, (5, 2, 16, 'fnuz'), (2, 4, 8, 16, 32, 64), 'float8_e5m2fnuz', 'ml_dtypes.float8_e5m2fnuz', 'float8_e5m2fnuz', True),
    'float8_e8m0fnu': ('float8', 'float', 14, 8, (8, 0, 127, 'scale'), (2, 4, 8, 16, 32, 64), 'float8_e8m0fnu', 'ml_dtypes.float8_e8m0fnu', 'float8_e8m0fnu', True),
    'float6_e2m3fn': ('float6', 'float', 15, 6, (2, 3, 1, 'finite'), (2, 4, 8, 16, 32, 64), None, 'ml_dtypes.float6_e2m3fn', 'float6_e2m3fn', True),
    'float6_e3m2fn': ('float6', 'float', 16, 6, (3, 2, 3, 'finite'), (2, 4, 8, 16, 32, 64), None, 'ml_dtypes.float6_e3m2fn', 'float6_e3m2fn', True),
    'float4_e2m1fn': ('float4', 'float', 17, 4, (2, 1, 1, 'finite'), (2, 4, 8, 16, 32, 64), 'float4_e2m1fn_x2', 'ml_dtypes.float4_e2m1fn', 'float4_e2m1fn', True),
    'float4_e2m1_unpacked': ('float4', 'float', 131, 8, (2, 1, 1, 'finite'), (), None, 'ml_dtypes.float4_e2m1fn', 'custom[float4_e2m1_unpacked]8', True),
    'handle': ('other', 'handle', 3, 64, None, (), None, None, 'handle', False),
    'void': ('other', 'void', 3, 0, None, (), None, None, 'void', False),
}

ALIASES: dict[str, str] = {'short': 'int16', 'int': 'int32', 'uint': 'uint32', 'long': 'int64', 'half': 'float16', 'float': 'float32', 'double': 'float64'}

STRING_ALIASES: dict[str, str] = {'ulong': 'uint64', 'custom[tfloat32]': 'tfloat32', 'custom[tfloat32]32': 'tfloat32', 'custom[float4_e2m1_unpacked]': 'float4_e2m1_unpacked', 'custom[float4_e2m1_unpacked]8': 'float4_e2m1_unpacked'}

HINTS: dict[str, str] = {'fp16': 'float16', 'bf16': 'bfloat16', 'fp32': 'float32', 'fp64': 'float64', 'f16': 'float16', 'f32': 'float32', 'f64': 'float64', 'tf32': 'tfloat32', 'e4m3_float8': 'float8_e4m3', 'e5m2_float8': 'float8_e5m2', 'e4m3': 'float8_e4m3', 'e5m2': 'float8_e5m2', 'fp8': 'float8_e4m3', 'float8': 'float8_e4m3', 'i8': 'int8', 'i32': 'int32', 'i64': 'int64', 'u8': 'uint8', 'byte': 'uint8', 'char': 'int8', 'boolean': 'bool', 'bool_': 'bool', 'fp4': 'float4_e2m1fn', 'float4': 'float4_e2m1fn'}
