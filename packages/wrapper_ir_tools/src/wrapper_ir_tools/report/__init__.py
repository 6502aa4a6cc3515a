"""Reports the memory of a program over time, as data, text, a page, a picture and a table."""

from wrapper_ir_tools.report.files import REPORT_FORMS, report_csv, report_html, report_json, write_report
from wrapper_ir_tools.report.memory import FunctionMemory, HeldStorage, MemoryReport, Moment, memory_report
from wrapper_ir_tools.report.savings import Saving, savings_of
from wrapper_ir_tools.report.text import report_text

__all__ = [
    "REPORT_FORMS",
    "FunctionMemory",
    "HeldStorage",
    "MemoryReport",
    "Moment",
    "Saving",
    "memory_report",
    "report_csv",
    "report_html",
    "report_json",
    "report_text",
    "savings_of",
    "write_report",
]
